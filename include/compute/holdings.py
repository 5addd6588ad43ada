"""What this installation holds, by every witness: the engines, EC2's tags, the ledger, the agents' heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from include.compute.damage import expiry_in, read_object, sort_out, unreadable
from include.compute.driver import JobDriver
from include.compute.ec2 import tags as tag
from include.compute.ec2.leftovers import UnlistedError, take_inventory
from include.compute.ec2.resource import ENDING, Kind, Resource
from include.compute.elsewhere import leases_elsewhere
from include.compute.engine import Engine
from include.compute.lease_keys import LeaseKeys
from include.compute.reap_plan import LeaseFacts
from include.core.contracts.lease import Lease, LeaseState
from include.core.errors import PlimsollError, StoreError
from include.core.store import ObjectStore
from include.ledger.ledger import LeaseRecord, Ledger

_PROBE = "leases/probe"
_PATIENCE_S = 15.0
# Ends that are looked through for one without a charge: more than end between two passes.
_RECENT_ENDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Where to ask, and through what to end it.

    Attributes:
        store: The object store.
        ledger: The ledger.
        engine: All engines behind one port.
        driver: Ends leases and settles them.
        ec2: Client of EC2 in the region that this installation rents in, None where it rents nothing there.
    """

    store: ObjectStore
    ledger: Ledger
    engine: Engine
    driver: JobDriver
    ec2: Any = None

    @property
    def installation(self) -> str:
        """What the tags of this installation's resources say."""
        return tag.installation_of(self.store.url)

    def resources(self) -> tuple[Resource, ...]:
        """Everything on EC2, whatever its state.

        Raises:
            UnlistedError: EC2 does not answer for one or more kinds.
        """
        return () if self.ec2 is None else take_inventory(self.ec2, installation=self.installation)

    def elsewhere(self) -> dict[str, str]:
        """Leases that these settings do not look at, with what to do about it; none where EC2 is asked."""
        return {} if self.ec2 is not None else leases_elsewhere(self.store, self.ledger)

    def store_answers(self) -> str:
        """Empty when the store can be read, else why not."""
        try:
            ObjectStore(self.store.url, patience_s=_PATIENCE_S).exists(_PROBE)
        except Exception as error:  # noqa: BLE001 - whatever the reason
            return f"the store cannot be read: {error}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look has found.

    Attributes:
        leases: All leases with what they have on EC2; what has ended and left nothing is not among them.
        problems: What could not be asked.
        store_gone: Whether the store cannot be read.
        ledger_gone: Whether the ledger cannot be read.
    """

    leases: tuple[LeaseFacts, ...]
    problems: tuple[str, ...] = ()
    store_gone: bool = False
    ledger_gone: bool = False

    @property
    def blind(self) -> bool:
        """Whether expiry is all there is to go by."""
        return self.store_gone or self.ledger_gone


def look(holdings: Holdings, *, now: float) -> Found:
    """Ask every witness.

    Args:
        holdings: Whom to ask.
        now: POSIX seconds, to tell how long an agent has been silent.

    Raises:
        UnlistedError: EC2 does not say which instances there are.
        StoreError: The store is gone and nothing is rented on EC2, so there is nothing to go by.
    """
    resources, problems = _resources(holdings)
    tagged = _by_tag(item for item in resources if item.state not in ENDING)
    if gone := holdings.store_answers():
        if holdings.ec2 is None:
            raise StoreError(gone)
        return Found(leases=tuple(tagged.values()), problems=(*problems, gone), store_gone=True)
    leases = _with_engines(holdings, tagged)
    if holdings.ec2 is None:
        leases = _set_aside(leases, leases_elsewhere(holdings.store, None))
    try:
        leases = _with_ledger(holdings, leases)
    except Exception as error:  # noqa: BLE001 - whatever the reason: what has expired is ended all the same
        problems, ledger_gone = (*problems, f"the ledger cannot be read: {error}"), True
    else:
        ledger_gone = False
    beating = tuple(_with_heartbeat(holdings.store, lease, now=now) for lease in leases.values())
    problems = (*problems, *(lease.unreadable for lease in beating if lease.unreadable))
    return Found(leases=beating, problems=problems, ledger_gone=ledger_gone)


def _resources(holdings: Holdings) -> tuple[tuple[Resource, ...], tuple[str, ...]]:
    try:
        return holdings.resources(), ()
    except UnlistedError as error:
        if Kind.INSTANCE in error.problems:
            raise
        return error.found, tuple(error.problems.values())


def _by_tag(resources: Iterable[Resource]) -> dict[str, LeaseFacts]:
    """Leases as the tags tell of them; what names no lease is under the empty one."""
    leases: dict[str, LeaseFacts] = {}
    for item in resources:
        tags = item.tags
        before = leases.get(item.lease_id) or LeaseFacts(
            lease_id=item.lease_id,
            group_id=tags.get(tag.GROUP, ""),
            generation=_generation(item.lease_id),
            dag_id=tags.get(tag.DAG, ""),
            run_id=tags.get(tag.RUN, ""),
        )
        leases[item.lease_id] = replace(
            before,
            alive=before.alive or item.lives,
            expires_at=latest(before.expires_at, item.expires_at),
            resources=(*before.resources, item),
        )
    return leases


def _with_engines(holdings: Holdings, leases: dict[str, LeaseFacts]) -> dict[str, LeaseFacts]:
    merged = dict(leases)
    found, damaged = sort_out(holdings.engine.find)
    for lease in found:
        if lease.state is not LeaseState.ENDED or lease.lease_id in merged:
            merged[lease.lease_id] = _with_engine(merged.get(lease.lease_id), lease)
    return _set_aside(merged, damaged)


def _set_aside(leases: dict[str, LeaseFacts], why: dict[str, str]) -> dict[str, LeaseFacts]:
    """Mark leases that cannot be judged by more than their tags."""
    merged = dict(leases)
    for lease_id, problem in why.items():
        before = merged.get(lease_id) or LeaseFacts(
            lease_id=lease_id, group_id=lease_id.rpartition("-g")[0], generation=_generation(lease_id)
        )
        merged[lease_id] = replace(before, unreadable=problem)
    return merged


def _with_engine(before: LeaseFacts | None, lease: Lease) -> LeaseFacts:
    before = before or LeaseFacts(
        lease_id=lease.lease_id,
        group_id=lease.group_id,
        generation=_generation(lease.lease_id),
        dag_id=lease.dag_id,
        run_id=lease.run_id,
    )
    return replace(
        before,
        alive=before.alive or lease.state is not LeaseState.ENDED,
        expires_at=latest(before.expires_at, lease.expires_at),
        known=True,
    )


def _with_ledger(holdings: Holdings, leases: dict[str, LeaseFacts]) -> dict[str, LeaseFacts]:
    merged = dict(leases)
    for entry in holdings.ledger.open_leases():
        before = merged.get(entry.lease_id) or LeaseFacts(
            lease_id=entry.lease_id, group_id=entry.group_id, generation=_generation(entry.lease_id)
        )
        # Tags are cut at EC2's limit, the ledger's names are whole.
        merged[entry.lease_id] = replace(before, dag_id=entry.dag_id, run_id=entry.run_id, open=True, known=True)
    for lease in leases.values():
        if lease.lease_id and not merged[lease.lease_id].open:
            record = holdings.ledger.lease_record(lease.lease_id)
            if record is not None and record.ended_at is not None:
                merged[lease.lease_id] = replace(lease, written_off=True, known=True)
    for record in _uncharged(holdings.ledger):
        before = merged.get(record.lease_id) or LeaseFacts(
            lease_id=record.lease_id,
            group_id=record.group_id,
            generation=_generation(record.lease_id),
            dag_id=record.dag_id,
            run_id=record.run_id,
        )
        merged[record.lease_id] = replace(before, written_off=True, uncharged=True, known=True)
    return merged


def _uncharged(ledger: Ledger) -> Iterator[LeaseRecord]:
    """Leases whose end was written while an instance of theirs was still billed."""
    charged: dict[tuple[str, str], set[str]] = {}
    for event in ledger.events(kind="ended", limit=_RECENT_ENDS):
        record = ledger.lease_record(event.lease_id) if event.lease_id and event.run_id else None
        if record is None or record.launched_at is None:
            continue
        run = (record.dag_id, record.run_id)
        if run not in charged:
            charged[run] = {charge.lease_id for charge in ledger.charges(dag_id=run[0], run_id=run[1])}
        if record.lease_id not in charged[run]:
            yield record


def _with_heartbeat(store: ObjectStore, lease: LeaseFacts, *, now: float) -> LeaseFacts:
    if not lease.alive or not lease.known or lease.unreadable:
        return lease
    keys = LeaseKeys(lease.lease_id)
    try:
        beat = read_object(store, keys.heartbeat)
        extended = None if beat is None else expiry_in(beat, key=keys.heartbeat)
    except PlimsollError as error:
        return replace(lease, unreadable=unreadable(lease.lease_id, error))
    if beat is None:
        return lease
    written = {key: at.timestamp() for key, at in store.list_with_times(keys.prefix)}.get(keys.heartbeat)
    return replace(
        lease,
        expires_at=latest(lease.expires_at, extended),
        silent_s=None if written is None or beat.get("state") == "ended" else max(0.0, now - written),
    )


def _generation(lease_id: str) -> int | None:
    number = lease_id.rpartition("-g")[2]
    return int(number) if number.isdecimal() else None


def latest(one: float | None, other: float | None) -> float | None:
    """The later of two times, None where neither is known."""
    return max((time for time in (one, other) if time is not None), default=None)
