"""One lease per group: launched when there is none, ended when it is dead, waited for when there is no capacity."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from include.compute.capacity_choice.asking import CapacityAsker
from include.compute.capacity_choice.past import NO_CAPACITY
from include.compute.capacity_choice.question import Move
from include.compute.engine import Engine
from include.compute.job_calls import Capacity, Delayed
from include.compute.launching import with_candidates
from include.compute.lease_keys import LeaseKeys
from include.compute.settlement import settle_lease
from include.compute.telling import tell_launch, tell_refusal
from include.core.clock import Clock
from include.core.contracts.lease import LaunchRequest, LeaseState
from include.core.errors import (
    BudgetExceededError,
    GroupClosedError,
    LaunchRefusedError,
    NoCapacityError,
    QueuedError,
)
from include.core.json_codec import from_json
from include.core.store import ObjectStore
from include.ledger.ledger import Intent, Ledger

_log = logging.getLogger(__name__)
# Reasons that the agent, or whoever told it to leave, gives for an end that is no loss.
OWN_REASONS = ("budget", "moved")


class LeaseKeeper:
    """Launches and ends the leases of groups.

    Args:
        store: The object store.
        ledger: The ledger.
        engine: Where the leases live.
        asker: Knows which candidates to try.
        clock: Source of time.
    """

    def __init__(
        self, *, store: ObjectStore, ledger: Ledger, engine: Engine, asker: CapacityAsker, clock: Clock
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._engine = engine
        self._asker = asker
        self._clock = clock

    def ensure(self, capacity: Capacity, *, reopen: bool) -> str | Delayed:
        """The group's live lease, launched if there is none; never two. See `JobDriver.ensure_lease`."""
        if reopen:
            # Before anything may say that there is no capacity: who then waits for it finds the group open.
            self._ledger.reopen(capacity.group_id)
        open_lease = self._ledger.open_lease(capacity.group_id)
        if open_lease is not None and self._engine.describe(open_lease).state is LeaseState.ENDED:
            self.end(open_lease, reason="found dead")
            open_lease = None
        move = Move(candidates=capacity.candidates)
        if open_lease is None:
            if not (reopen or capacity.shared) and self._ledger.is_closed(capacity.group_id):
                # Nothing is waited for on behalf of a run that was cancelled or is over.
                raise GroupClosedError(f"group {capacity.group_id} was released; only a new launch may reopen it")
            move = self._asker.move(capacity, now=self._clock.now())
            if move.wait_s:
                return self._delayed(capacity, move.why, retry_after_s=move.wait_s)
        try:
            intent = self._intend(capacity, reopen=reopen)
        except QueuedError as error:
            return Delayed(reason=str(error), retry_after_s=error.retry_after_s, position=error.position)
        return self._launch(capacity, intent, move, reopen=reopen)

    def end(self, lease_id: str, *, reason: str) -> str:
        """Stop a lease, write its end and its charge.

        Returns:
            The reason that was written: that of the agent where it left for a reason of its own.
        """
        how = self._engine.stop(lease_id, reason=reason)
        reason = self._own_reason(lease_id) or reason
        lease = self._engine.describe(lease_id)
        settle_lease(store=self._store, ledger=self._ledger, lease_id=lease_id, reason=reason, lease=lease)
        _log.info("lease %s ended (%s): %s", lease_id, reason, how)
        return reason

    def _intend(self, capacity: Capacity, *, reopen: bool) -> Intent:
        limited = self._asker.with_limits_of_the_rest(capacity)
        try:
            return self._ledger.intent(
                group_id=capacity.group_id,
                dag_id=capacity.dag_id,
                run_id=capacity.run_id,
                reopen=reopen or capacity.shared,
                limits=limited.limits,
            )
        except BudgetExceededError as error:
            tell_refusal(self._ledger, capacity, error)
            raise

    def _launch(self, capacity: Capacity, intent: Intent, move: Move, *, reopen: bool) -> str | Delayed:
        request = self._request(capacity, intent, move)
        try:
            lease = self._engine.launch(request)
        except GroupClosedError:
            if not (reopen or capacity.shared):
                raise
            # That lease was told to stop and is over for good; the group is open, so its next generation may start.
            self.end(intent.lease_id, reason="told to stop")
            return self.ensure(capacity, reopen=reopen)
        except NoCapacityError as error:
            return self._refused(capacity, request, error)
        except LaunchRefusedError as error:
            self.end(intent.lease_id, reason="refused")
            tell_refusal(self._ledger, capacity, error)
            raise
        details: dict[str, Any] = {"engine": request.engine, "instances": request.instances, **request.tags}
        details |= lease.details
        wrote = self._ledger.launched(group_id=capacity.group_id, lease_id=intent.lease_id, details=details)
        if wrote and move.why:
            _log.info("lease %s: %s", intent.lease_id, move.why)
        if wrote:
            tell_launch(self._ledger, capacity, lease_id=intent.lease_id, details=details)
        return intent.lease_id

    def _request(self, capacity: Capacity, intent: Intent, move: Move) -> LaunchRequest:
        """What is launched; a launch that was announced before is repeated as it was announced."""
        announced = None if intent.created else self._store.get_json(LeaseKeys(intent.lease_id).spec)
        if announced is not None:
            return from_json(LaunchRequest, announced)
        request = with_candidates(capacity.launch(intent.lease_id, intent.generation), move.candidates)
        left = self._asker.usd_left(capacity)
        return request if left is None else replace(request, spend_limit_usd=format(left, "f"))

    def _refused(self, capacity: Capacity, request: LaunchRequest, error: NoCapacityError) -> Delayed:
        """Give the generation up, so that the next try may ask for something else under a name of its own."""
        tried = [
            {"instance_type": c.instance_type, "purchase": c.purchase, "region": c.region, "zone": c.zone}
            for c in request.candidates
        ]
        self._ledger.record(
            NO_CAPACITY,
            dag_id=capacity.dag_id,
            run_id=capacity.run_id,
            group_id=capacity.group_id,
            lease_id=request.lease_id,
            body={"tried": tried, "error": str(error), "retry_after_s": error.retry_after_s},
            key=f"{NO_CAPACITY}|{request.lease_id}",
        )
        self.end(request.lease_id, reason=NO_CAPACITY)
        again = self._asker.move(capacity, now=self._clock.now())
        return self._delayed(capacity, f"{error}; {again.why}", retry_after_s=again.wait_s or error.retry_after_s)

    def _delayed(self, capacity: Capacity, reason: str, *, retry_after_s: float) -> Delayed:
        """Wait, unless the group has waited as long as it may.

        Raises:
            LaunchRefusedError: It has; says what was tried.
        """
        past = self._asker.past(capacity)
        limit_s = self._asker.capacity_wait_s
        if past.refused_since_s is not None:
            waited_s = self._clock.now().timestamp() - past.refused_since_s
            if waited_s >= limit_s:
                error = LaunchRefusedError(
                    "no capacity came in time",
                    where=f"{capacity.dag_id} {capacity.run_id}, group {capacity.group_id}",
                    found=f"waited {waited_s:.0f} s; " + "; ".join(past.refusals),
                    allowed=f"{limit_s:.0f} s (PLIMSOLL_CAPACITY_WAIT_S)",
                    todo="allow more types, zones or on demand in the workload, or wait longer; then clear the task",
                )
                tell_refusal(self._ledger, capacity, error)
                raise error
            retry_after_s = min(retry_after_s, max(limit_s - waited_s, 1.0))
        return Delayed(reason=reason, retry_after_s=retry_after_s)

    def _own_reason(self, lease_id: str) -> str:
        """Why the agent left, or was told to, where that was neither a loss nor a release."""
        keys = LeaseKeys(lease_id)
        beat = self._store.get_json(keys.heartbeat) or {}
        told = self._store.get_json(keys.stop) or {}
        reasons = [str(beat.get("reason", "")) if beat.get("state") == "ended" else "", str(told.get("reason", ""))]
        return next((own for own in OWN_REASONS for reason in reasons if reason.startswith(own)), "")
