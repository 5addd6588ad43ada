"""Engine ``local``: leases are agents on this machine, as detached processes.

A lease without ``owner.json`` is judged by the process in ``launching.json``: while that lives the lease is STARTING,
once it is dead the launch is found dead and the lease ENDED. Without either it is STARTING (nobody has heard of it
yet), unless it was told to stop.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from include.compute.damage import read_contract, read_each, read_object, sort_out
from include.compute.engines.local_process import (
    clear_folder,
    kill_and_wait,
    prepare_folder,
    spawn_agent,
)
from include.compute.job_polling import poll_job
from include.compute.lease_keys import ROOT, LeaseKeys, lease_of
from include.config.settings import Settings
from include.core.clock import iso
from include.core.contracts.demand import Demand
from include.core.contracts.lease import JobState, JobTicket, LaunchRequest, Lease, LeaseState, ReleaseReport
from include.core.contracts.offer import Offer
from include.core.errors import GroupClosedError, UserError
from include.core.json_codec import to_json
from include.core.process import ProcessIdentity, identify, is_alive, own_identity
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compute")

AGENT_COMMAND = (sys.executable, "-m", "include.compute.agent")
# Covers a job's own grace of 8 s after SIGTERM; what lives longer hangs.
STOP_GRACE_S = 10.0
_LOOK_EVERY_S = 0.1


class LocalEngine:
    """Launches agents on this machine.

    Args:
        store: The object store.
        settings: Settings of the installation; agents get the same ones.
        agent_command: Program of the agent; lease id and options are appended.
        stop_grace_s: How long an agent that is told to stop may take before it is killed.
    """

    name = "local"

    def __init__(
        self,
        store: ObjectStore,
        settings: Settings,
        *,
        agent_command: Sequence[str] = AGENT_COMMAND,
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        self._store = store
        self._settings = settings
        self._agent_command = agent_command
        self._stop_grace_s = stop_grace_s
        # Kept so that children of this process are collected when they end.
        self._spawned: list[subprocess.Popen[bytes]] = []

    def offers(self, demand: Demand | None) -> tuple[Offer, ...]:  # noqa: ARG002 - part of the port
        """This machine, whatever the demand."""
        from include.catalog.local import local_offer  # noqa: PLC0415 - only planning needs the catalog

        return (local_offer(self._settings),)

    def launch(self, request: LaunchRequest) -> Lease:
        """Start an agent for the lease, unless it has one.

        Raises:
            GroupClosedError: The lease was told to stop; it is never launched again.
            UserError: The work folder cannot be used.
        """
        keys = LeaseKeys(request.lease_id)
        self._refuse_if_stopped(keys)
        self._store.create_json(keys.spec, to_json(request))
        launching = self._identity_at(keys.launching)
        if not self._store.exists(keys.owner) and (launching is None or not is_alive(launching)):
            self._spawn(keys)
            # A stop that came in between: the agent finds the mark before it owns the lease, and leaves.
            self._refuse_if_stopped(keys)
        return self.describe(request.lease_id)

    def describe(self, lease_id: str) -> Lease:
        """State of one lease."""
        keys = LeaseKeys(lease_id)
        spec = self._spec_of(keys)
        if spec is None:
            return Lease(lease_id=lease_id, group_id=lease_id.rpartition("-g")[0], state=self._state(keys))
        return self._lease(keys, spec)

    def submit(self, lease_id: str, ticket: JobTicket, request: dict[str, Any]) -> None:
        """Write the request, then queue the ticket; what is already there stays as it is."""
        self._store.create_json(self._store.key_of(ticket.request_uri), request)
        self._store.create_json(LeaseKeys(lease_id).ticket(ticket.name), to_json(ticket))

    def poll(self, lease_id: str, base: str) -> JobState:
        """Where one attempt stands."""
        return poll_job(self._store, lease_id=lease_id, base=base, lease_state=lambda: self._state(LeaseKeys(lease_id)))

    def stop(self, lease_id: str, *, reason: str) -> str:
        """End one lease; returns the agent's own reason, ``killed``, ``lost`` or ``never started``."""
        ended, _ = self._end([lease_id], reason=reason)
        return ended[lease_id]

    def release(self, group_id: str) -> ReleaseReport:
        """End every lease of a group; one that cannot be read is left."""
        found, unread = sort_out(lambda: self.find(group_id=group_id))
        ended, left = self._end([lease.lease_id for lease in found], reason="released")
        return ReleaseReport(ended=ended, left=(*left, *unread))

    def find(self, *, group_id: str | None = None) -> tuple[Lease, ...]:
        """Leases by group, whatever their state.

        Raises:
            UnreadableLeasesError: Documents of some leases are damaged; it has the others.
        """
        listed = {lease_of(key) for key, _ in self._store.list(ROOT)}
        if group_id is not None:
            listed = {lease_id for lease_id in listed if lease_id.rpartition("-g")[0] == group_id}

        def read(lease_id: str) -> Lease | None:
            keys = LeaseKeys(lease_id)
            spec = self._spec_of(keys)
            if spec is None or spec.engine != self.name:
                return None
            return self._lease(keys, spec)

        return read_each(sorted(listed), read)

    def stop_all(self, *, reason: str) -> ReleaseReport:
        """End every lease of this installation that still lives."""
        found, unread = sort_out(self.find)
        alive = [lease.lease_id for lease in found if lease.state is not LeaseState.ENDED]
        ended, left = self._end(alive, reason=reason)
        return ReleaseReport(ended=ended, left=(*left, *unread))

    def _refuse_if_stopped(self, keys: LeaseKeys) -> None:
        if self._store.exists(keys.stop):
            raise GroupClosedError(f"lease {keys.lease_id} was told to stop and is not launched again")

    def _spawn(self, keys: LeaseKeys) -> None:
        folder = self._settings.work_root / keys.lease_id
        prepare_folder(folder)
        # Until the child is known this process stands for it: if it dies in between, so has the launch.
        self._note_launching(keys, own_identity(), is_agent=False)
        try:
            process = spawn_agent(
                lease_id=keys.lease_id, folder=folder, command=self._agent_command, settings=self._settings
            )
        except OSError as error:
            self._store.delete(keys.launching)
            raise UserError("the agent could not be started", where=str(folder), found=str(error)) from error
        self._spawned.append(process)
        child = identify(process.pid)
        if child is not None:
            self._note_launching(keys, child, is_agent=True)
        _log.info("launched lease %s as process %s", keys.lease_id, process.pid)

    def _note_launching(self, keys: LeaseKeys, identity: ProcessIdentity, *, is_agent: bool) -> None:
        document = {**identity.to_json(), "is_agent": is_agent, "at": iso(datetime.now(UTC))}
        self._store.put_json(keys.launching, document)

    def _spec_of(self, keys: LeaseKeys) -> LaunchRequest | None:
        return read_contract(self._store, keys.spec, LaunchRequest)

    def _lease(self, keys: LeaseKeys, spec: LaunchRequest) -> Lease:
        owner = read_object(self._store, keys.owner)
        born = None if owner is None else datetime.fromisoformat(owner["born"]).timestamp()
        return Lease(
            lease_id=keys.lease_id,
            group_id=spec.group_id,
            state=self._state(keys),
            dag_id=spec.dag_id,
            run_id=spec.run_id,
            expires_at=None if born is None else born + spec.expires_after_s,
        )

    def _state(self, keys: LeaseKeys) -> LeaseState:
        self._spawned = [process for process in self._spawned if process.poll() is None]
        if owner := self._identity_at(keys.owner):
            return LeaseState.RUNNING if is_alive(owner) else LeaseState.ENDED
        launching = self._identity_at(keys.launching)
        if launching is None:
            return LeaseState.ENDED if self._store.exists(keys.stop) else LeaseState.STARTING
        if is_alive(launching):
            return LeaseState.STARTING
        # It may have become the owner, or lost to one, between the two looks.
        owner = self._identity_at(keys.owner)
        return LeaseState.RUNNING if owner is not None and is_alive(owner) else LeaseState.ENDED

    def _identity_at(self, key: str) -> ProcessIdentity | None:
        value = self._store.get_json(key)
        return None if value is None else ProcessIdentity.from_json(value)

    def _agent_of(self, keys: LeaseKeys) -> ProcessIdentity | None:
        """The agent's process if it lives, also before it has become the owner; never the launcher's own."""
        document = self._store.get_json(keys.owner)
        if document is None:
            document = self._store.get_json(keys.launching)
            if document is None or not document["is_agent"]:
                return None
        identity = ProcessIdentity.from_json(document)
        return identity if is_alive(identity) else None

    def _agents_of(self, leases: Iterable[LeaseKeys]) -> dict[str, ProcessIdentity]:
        return {keys.lease_id: agent for keys in leases if (agent := self._agent_of(keys))}

    def _end(self, lease_ids: Iterable[str], *, reason: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """Mark all, wait for all together, kill what is left."""
        leases = [LeaseKeys(lease_id) for lease_id in lease_ids]
        for keys in leases:
            self._store.create_json(keys.stop, {"reason": reason, "at": iso(datetime.now(UTC))})
        deadline = time.monotonic() + self._stop_grace_s
        while (hung := self._agents_of(leases)) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        kill_and_wait(hung.values())
        ended = {keys.lease_id: self._how_it_ended(keys, killed=keys.lease_id in hung) for keys in leases}
        for keys in leases:
            clear_folder(self._settings.work_root / keys.lease_id)
        return ended, tuple(self._agents_of(leases))

    def _how_it_ended(self, keys: LeaseKeys, *, killed: bool) -> str:
        if killed:
            return "killed"
        beat = read_object(self._store, keys.heartbeat) or {}
        if beat.get("state") == "ended":
            return str(beat["reason"])
        return "lost" if self._store.exists(keys.owner) else "never started"
