"""Engine ``ec2``: leases are instances on EC2, found by their tags, launched by ranked candidates.

All that decides is in the store and on EC2, so every call may come from a fresh process. Where EC2 does not answer,
calls raise: nothing is guessed from silence, least of all that a lease has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from include.compute.damage import read_contract, read_each, read_object, sort_out
from include.compute.ec2 import tags as tag
from include.compute.ec2.clients import Ec2Clients
from include.compute.ec2.errors import Action, Kind, code_of, verdict_of
from include.compute.ec2.inventory import Instance, describe, describe_ids
from include.compute.ec2.launcher import Launcher
from include.compute.ec2.lease_view import (
    LeaseFacts,
    billed_of,
    details_of,
    expires_at_of,
    first_look,
    how_it_ended,
    ids_to_end,
    is_fresh,
    is_settled,
    may_still_appear,
    state_of,
)
from include.compute.job_polling import poll_job
from include.compute.lease_keys import ROOT, LeaseKeys, lease_of
from include.config.settings import Settings
from include.core.clock import Clock, SystemClock, iso
from include.core.contracts.demand import Demand
from include.core.contracts.lease import JobState, JobTicket, LaunchRequest, Lease, LeaseState, ReleaseReport
from include.core.contracts.offer import Offer
from include.core.errors import LaunchRefusedError, PlimsollError
from include.core.json_codec import to_json
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compute")

# Covers a job's own grace after SIGTERM and the agent's last words; what takes longer is cut off.
STOP_GRACE_S = 15.0
# EC2 takes a termination within a second; longer than this means that something is badly wrong.
ENDED_WITHIN_S = 60.0
_LOOK_EVERY_S = 1.0


class LeaseLeftError(PlimsollError):
    """Instances of a lease still run although they were to be ended; their agent was told to leave all the same."""


class Ec2Engine:
    """Rents instances.

    Args:
        store: The object store.
        settings: Settings of the installation.
        clients: AWS clients of the region that the installation rents in.
        clock: Source of time.
        stop_grace_s: How long an agent that is told to stop may take before its instance is terminated.
        ended_within_s: How long the end of instances is waited for.
        look_every_s: Seconds between two looks while something is waited for.
    """

    name = "ec2"

    def __init__(
        self,
        store: ObjectStore,
        settings: Settings,
        clients: Ec2Clients,
        *,
        clock: Clock | None = None,
        stop_grace_s: float = STOP_GRACE_S,
        ended_within_s: float = ENDED_WITHIN_S,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clients = clients
        self._clock = clock or SystemClock()
        self._stop_grace_s = stop_grace_s
        self._ended_within_s = ended_within_s
        self._look_every_s = look_every_s
        self._installation = tag.installation_of(settings.store)
        self._launcher = Launcher(
            store=store, settings=settings, clients=clients, clock=self._clock, installation=self._installation
        )

    def offers(self, demand: Demand | None) -> tuple[Offer, ...]:  # noqa: ARG002 - part of the port
        """None of its own: the catalog lists what EC2 sells."""
        return ()

    def launch(self, request: LaunchRequest) -> Lease:
        """Launch a lease from the best of its candidates that can be had; idempotent by ``request.lease_id``.

        Raises:
            GroupClosedError: The lease was told to stop.
            NoCapacityError: Nothing can be had now, or EC2 gives no clear answer; the same request may come again.
            LaunchRefusedError: A quota, a permission or a parameter forbids it.
        """
        self._launcher.launch(request)
        try:
            return self.describe(request.lease_id)
        except Exception as error:
            if verdict_of(code_of(error)).kind is Kind.AUTH:
                self._launcher.undo(request.lease_id)
                raise LaunchRefusedError(
                    "a launched lease cannot be looked at and was ended again", found=str(error)
                ) from error
            raise

    def describe(self, lease_id: str) -> Lease:
        """State of one lease.

        Raises:
            botocore.exceptions.ClientError: EC2 refuses or fails; nothing is known then.
        """
        return self._lease(lease_id, self._facts(lease_id))

    def submit(self, lease_id: str, ticket: JobTicket, request: dict[str, Any]) -> None:
        """Write the request, then queue the ticket; what is already there stays as it is."""
        self._store.create_json(self._store.key_of(ticket.request_uri), request)
        self._store.create_json(LeaseKeys(lease_id).ticket(ticket.name), to_json(ticket))

    def poll(self, lease_id: str, base: str) -> JobState:
        """Where one attempt stands."""
        return poll_job(
            self._store, lease_id=lease_id, base=base, lease_state=lambda: self._state(lease_id), clock=self._clock
        )

    def stop(self, lease_id: str, *, reason: str) -> str:
        """End one lease; returns the agent's own reason, ``killed``, ``lost`` or ``never started``.

        Raises:
            LeaseLeftError: EC2 does not end its instances.
            botocore.exceptions.ClientError: EC2 does not say what there is.
        """
        ended, left = self._end([lease_id], reason=reason)
        if left:
            raise LeaseLeftError(f"lease {lease_id} was told to stop, but EC2 has not ended its instances")
        return ended[lease_id]

    def release(self, group_id: str) -> ReleaseReport:
        """End every lease of a group; one that cannot be read is left."""
        found, unread = sort_out(lambda: self.find(group_id=group_id))
        ended, left = self._end([lease.lease_id for lease in found], reason="released")
        return ReleaseReport(ended=ended, left=(*left, *unread))

    def find(self, *, group_id: str | None = None) -> tuple[Lease, ...]:
        """Leases by tag and by their launch requests, whatever their state.

        Raises:
            UnreadableLeasesError: Documents or tags of some leases are damaged; it has the others.
        """
        shown = describe(self._clients.reading(), installation=self._installation, group_id=group_id)
        by_lease: dict[str, list[Instance]] = {}
        for instance in shown:
            by_lease.setdefault(instance.lease_id, []).append(instance)
        documents: dict[str, set[str]] = {}
        for key, _ in self._store.list(ROOT):
            documents.setdefault(lease_of(key), set()).add(key)
        wanted = {each for each in documents if group_id in {None, each.rpartition("-g")[0]}}

        def read(lease_id: str) -> Lease | None:
            if lease_id in by_lease:
                return self._lease(lease_id, self._facts(lease_id, tuple(by_lease[lease_id])))
            spec = self._spec(lease_id)
            if spec is None or spec.engine != self.name:
                return None
            if is_settled(documents[lease_id]):
                return self._over(spec)
            return self._lease(lease_id, self._facts(lease_id, ()))

        return read_each(sorted(filter(None, {*wanted, *by_lease})), read)

    @staticmethod
    def _over(spec: LaunchRequest) -> Lease:
        """A lease of the past; most are, so nothing more is read of it."""
        return Lease(
            lease_id=spec.lease_id,
            group_id=spec.group_id,
            state=LeaseState.ENDED,
            dag_id=spec.dag_id,
            run_id=spec.run_id,
        )

    def stop_all(self, *, reason: str) -> ReleaseReport:
        """End every lease of this installation that still lives, or whose machines do."""
        found, unread = sort_out(self.find)
        alive = [
            lease.lease_id
            for lease in found
            if lease.state is not LeaseState.ENDED or any(each.ended_at is None for each in lease.billed)
        ]
        ended, left = self._end(alive, reason=reason)
        return ReleaseReport(ended=ended, left=(*left, *unread))

    def _spec(self, lease_id: str) -> LaunchRequest | None:
        return read_contract(self._store, LeaseKeys(lease_id).spec, LaunchRequest)

    def _facts(self, lease_id: str, tagged: tuple[Instance, ...] | None = None) -> LeaseFacts:
        """Look everything up that is known of a lease; ``tagged`` are its instances by tag where those are known."""
        keys = LeaseKeys(lease_id)
        spec = self._spec(lease_id)
        intent, answer = (None, None)
        if spec is None or spec.engine == self.name:
            intent, answer = self._launcher.log_of(lease_id).last()
            if tagged is None:
                tagged = self._tagged(lease_id, launched=intent is not None)
        instances = tagged or ()
        if answer is not None and is_fresh(answer, self._clock.now()):
            unseen = {*answer.instances, *answer.discarded} - {each.instance_id for each in instances}
            instances += describe_ids(self._clients.reading(), unseen)
        heartbeat = read_object(self._store, keys.heartbeat) or {}
        return LeaseFacts(
            spec=spec,
            intent=intent,
            answer=answer,
            instances=instances,
            owner=read_object(self._store, keys.owner) or {},
            heartbeat=heartbeat,
            stopped=self._store.exists(keys.stop),
            seen_ended=self._seen_ended(keys, instances, heartbeat),
        )

    def _tagged(self, lease_id: str, *, launched: bool) -> tuple[Instance, ...]:
        """Instances of a lease by tag. Where nobody made a launching call, EC2 need not answer."""
        try:
            return describe(self._clients.reading(), installation=self._installation, lease_id=lease_id)
        except Exception as error:
            if launched:
                raise
            _log.warning("lease %s was never launched, and EC2 does not say more: %s", lease_id, code_of(error))
            return ()

    def _seen_ended(
        self, keys: LeaseKeys, instances: Iterable[Instance], heartbeat: Mapping[str, Any]
    ) -> dict[str, datetime]:
        """When instances were first seen ended whose end nobody else dates; written down so that it stays the same."""
        has_last_word = heartbeat.get("state") == "ended"
        undated = [each for each in instances if each.ends and each.ended_at is None and not has_last_word]
        seen_at = first_look(heartbeat, now=self._clock.now())
        seen = {}
        for each in undated:
            key = f"{keys.prefix}/ended/{each.instance_id}.json"
            self._store.create_json(key, {"at": iso(seen_at)})
            seen[each.instance_id] = datetime.fromisoformat(self._store.get_json(key)["at"])
        return seen

    def _state(self, lease_id: str) -> LeaseState:
        return state_of(self._facts(lease_id), now=self._clock.now())

    def _lease(self, lease_id: str, facts: LeaseFacts) -> Lease:
        spec, region = facts.spec, self._settings.ec2_region
        tags = facts.members[0].tags if facts.members else {}
        return Lease(
            lease_id=lease_id,
            group_id=spec.group_id if spec else tags.get(tag.GROUP, lease_id.rpartition("-g")[0]),
            state=state_of(facts, now=self._clock.now()),
            dag_id=spec.dag_id if spec else tags.get(tag.DAG, ""),
            run_id=spec.run_id if spec else tags.get(tag.RUN, ""),
            expires_at=expires_at_of(facts),
            details=details_of(facts, region=region),
            billed=billed_of(facts, region=region),
        )

    def _end(self, lease_ids: Iterable[str], *, reason: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """Mark all, give their agents a moment together, terminate what is left, wait until it shuts down."""
        leases = [LeaseKeys(lease_id) for lease_id in lease_ids]
        for keys in leases:
            self._store.create_json(keys.stop, {"reason": reason, "at": iso(self._clock.now())})
        before = {keys.lease_id: self._facts(keys.lease_id) for keys in leases}
        self._await_last_words([keys for keys in leases if before[keys.lease_id].live])
        after, problem = self._terminate_all(leases)
        left = tuple(lease_id for lease_id, facts in after.items() if facts.live)
        if left and problem is not None:
            _log.error("instances of %s cannot be ended: %s", ", ".join(left), problem)
        ended = {lease_id: how_it_ended(before[lease_id], facts) for lease_id, facts in after.items()}
        return ended, left

    def _await_last_words(self, leases: list[LeaseKeys]) -> None:
        """An agent that is told to stop writes how its job ended; one that hangs is not waited for long."""
        deadline = self._clock.monotonic() + self._stop_grace_s
        talking = [keys for keys in leases if self._store.exists(keys.owner)]
        while talking and self._clock.monotonic() < deadline:
            talking = [keys for keys in talking if (self._store.get_json(keys.heartbeat) or {}).get("state") != "ended"]
            if talking:
                self._clock.sleep(self._look_every_s)

    def _terminate_all(self, leases: list[LeaseKeys]) -> tuple[dict[str, LeaseFacts], Exception | None]:
        """Terminate until nothing of the leases is left, also what EC2 shows late; the last refusal is returned."""
        deadline, since = self._clock.monotonic() + self._ended_within_s, self._clock.now()
        problem: Exception | None = None
        while True:
            facts = {keys.lease_id: self._facts(keys.lease_id) for keys in leases}
            now = self._clock.now()
            unsettled = [each for each in facts.values() if each.live or may_still_appear(each, now=now, since=since)]
            if not unsettled or self._clock.monotonic() >= deadline:
                return facts, problem
            problem = self._terminate(sorted(set().union(*(ids_to_end(each) for each in unsettled))))
            if problem is not None and verdict_of(code_of(problem)).action is Action.STOP:
                return facts, problem
            self._clock.sleep(self._look_every_s)

    def _terminate(self, ids: list[str]) -> Exception | None:
        """One by one where all together are refused: one that is unknown shields none of the others."""
        problem: Exception | None = None
        if not ids:
            return None
        try:
            self._clients.launching().terminate_instances(InstanceIds=ids)
        except Exception as error:  # noqa: BLE001 - judged by its code by the caller; `code_of` raises what has none
            if len(ids) > 1:
                problems = [self._terminate([each]) for each in ids]
                return next((each for each in problems if each is not None), None)
            problem = None if code_of(error) == "InvalidInstanceID.NotFound" else error
        return problem
