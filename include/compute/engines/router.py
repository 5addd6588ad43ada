"""Several engines behind one port: each lease goes to the engine that its launch request names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from include.compute.damage import UnreadableLeasesError, read_object, sort_out
from include.compute.elsewhere import is_elsewhere
from include.compute.engine import Engine
from include.compute.lease_keys import LeaseKeys
from include.core.contracts.demand import Demand
from include.core.contracts.lease import JobState, JobTicket, LaunchRequest, Lease, ReleaseReport
from include.core.contracts.offer import Offer
from include.core.errors import UserError
from include.core.store import ObjectStore

LOCAL = "local"


class EngineRouter:
    """Dispatches by the launch request in the store, which every engine writes before it calls anybody.

    Args:
        store: The object store.
        engines: Engines by name; ``local`` is among them.
    """

    name = "router"

    def __init__(self, store: ObjectStore, engines: Mapping[str, Engine]) -> None:
        self._store = store
        self._engines = dict(engines)

    def offers(self, demand: Demand | None) -> tuple[Offer, ...]:
        """What all engines could launch."""
        return tuple(offer for engine in self._engines.values() for offer in engine.offers(demand))

    def launch(self, request: LaunchRequest) -> Lease:
        """See `Engine`."""
        return self._engine(request.engine, request.lease_id).launch(request)

    def describe(self, lease_id: str) -> Lease:
        """See `Engine`."""
        return self._engine_of(lease_id).describe(lease_id)

    def submit(self, lease_id: str, ticket: JobTicket, request: dict[str, Any]) -> None:
        """See `Engine`."""
        self._engine_of(lease_id).submit(lease_id, ticket, request)

    def poll(self, lease_id: str, base: str) -> JobState:
        """See `Engine`."""
        return self._engine_of(lease_id).poll(lease_id, base)

    def stop(self, lease_id: str, *, reason: str) -> str:
        """See `Engine`."""
        return self._engine_of(lease_id).stop(lease_id, reason=reason)

    def release(self, group_id: str) -> ReleaseReport:
        """Every engine looks for the group by its own tags: nothing is trusted to the store alone."""
        reports = [engine.release(group_id) for engine in self._engines.values()]
        ended = {lease: how for report in reports for lease, how in report.ended.items()}
        return ReleaseReport(ended=ended, left=tuple(lease for report in reports for lease in report.left))

    def find(self, *, group_id: str | None = None) -> tuple[Lease, ...]:
        """Leases of all engines.

        Raises:
            UnreadableLeasesError: Documents or tags of some leases are damaged; it has those of all engines that can
                be read.
        """
        found: dict[str, Lease] = {}
        problems: dict[str, str] = {}
        for engine in self._engines.values():
            read, damaged = sort_out(functools.partial(engine.find, group_id=group_id))
            found |= {lease.lease_id: lease for lease in read}
            problems |= damaged
        if problems:
            raise UnreadableLeasesError(problems, tuple(found.values()))
        return tuple(found.values())

    def _engine_of(self, lease_id: str) -> Engine:
        spec = read_object(self._store, LeaseKeys(lease_id).spec) or {}
        return self._engine(str(spec.get("engine", LOCAL)), lease_id)

    def _engine(self, name: str, lease_id: str) -> Engine:
        if name not in self._engines:
            raise UserError(is_elsewhere(lease_id, name))
        return self._engines[name]
