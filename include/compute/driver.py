"""Submit, re-attach, recover: one piece of code for every class of job, without Airflow.

All state is in the ledger and the store, so `JobDriver.advance` may be called from a fresh process at any moment: by
the first execution of a task, after a deferral, by a retry, after a clear.
"""

from __future__ import annotations

import logging

from include.compute.budget_end import budget_error
from include.compute.capacity_choice.asking import CapacityAsker
from include.compute.engine import Engine
from include.compute.job_calls import Capacity, Delayed, Finished, JobCall, Waiting
from include.compute.lease_keeper import OWN_REASONS, LeaseKeeper
from include.compute.mover import Mover
from include.compute.recovery import Action, Decision, decide
from include.compute.settlement import settle_job
from include.compute.telling import tell_budget, tell_interruption
from include.core.clock import Clock, SystemClock
from include.core.contracts.lease import JobState, JobTicket
from include.core.errors import PlimsollError, UserError
from include.core.ids import job_name, run_key
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger

__all__ = ["Capacity", "Delayed", "Finished", "JobCall", "JobDriver", "JobFailedError", "JobInputError", "Waiting"]

_log = logging.getLogger(__name__)
# One call moves at most this many attempts on; more means that something flaps, and the caller should see it.
_MOVES = 20


class JobFailedError(PlimsollError):
    """The job itself failed; a retry starts a new attempt."""


class JobInputError(UserError):
    """The job refused its input; no retry helps."""


class JobDriver:
    """Moves one job on as far as it goes without waiting.

    Args:
        store: The object store.
        ledger: The ledger.
        engine: Where the leases live.
        preemption_budget: Preemptions of one job before its run fails.
        capacity_wait_s: Seconds that a group may wait for capacity, counted from its first refusal since it last had
            some; time in which a job runs does not count.
        clock: Source of time.
    """

    def __init__(
        self,
        *,
        store: ObjectStore,
        ledger: Ledger,
        engine: Engine,
        preemption_budget: int,
        capacity_wait_s: float = 3600.0,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._engine = engine
        self._budget = preemption_budget
        clock = clock or SystemClock()
        asker = CapacityAsker(
            store=store, ledger=ledger, capacity_wait_s=capacity_wait_s, preemption_budget=preemption_budget
        )
        self._keeper = LeaseKeeper(store=store, ledger=ledger, engine=engine, asker=asker, clock=clock)
        self._mover = Mover(store=store, ledger=ledger, asker=asker, clock=clock)

    def ensure_lease(self, capacity: Capacity, *, reopen: bool = False) -> str | Delayed:
        """The group's live lease, launched if there is none; never two.

        Returns:
            Its id, or `Delayed` where there is no capacity now or a team's quota is used up: nothing runs then.

        Raises:
            GroupClosedError: The group was released and ``reopen`` is not set.
            BudgetExceededError: The launch would exceed a budget or quota.
            LaunchRefusedError: The provider refuses for good, or no capacity came in time.
        """
        return self._keeper.ensure(capacity, reopen=reopen)

    def end_lease(self, lease_id: str, *, reason: str) -> str:
        """Stop a lease, then write its end and its charge.

        Returns:
            The reason that was written: the agent's own where it left for one.
        """
        return self._keeper.end(lease_id, reason=reason)

    def advance(
        self, call: JobCall, capacity: Capacity, *, lost_lease: str | None = None
    ) -> Finished | Waiting | Delayed:
        """Move the job on.

        Args:
            call: The job.
            capacity: Where it runs.
            lost_lease: A lease that the watcher believes lost.

        Raises:
            JobInputError: The job refused its input.
            JobFailedError: The job failed, or its preemption budget is used up.
            BudgetExceededError: The run has spent what it may; its checkpoint is safe.
            GroupClosedError: The group was released.
            LaunchRefusedError: The provider refuses for good, or no capacity came in time.
        """
        for _ in range(_MOVES):
            attached = self._attach(call, capacity)
            if isinstance(attached, Delayed):
                return attached
            attempt, lease_id, base = attached
            state = self._engine.poll(lease_id, base)
            decision = decide(state, believed_lost=lost_lease == lease_id)
            _log.info("job %s attempt %s on %s: %s -> %s", call.job, attempt, lease_id, state.phase, decision.action)
            if decision.action is Action.WAIT:
                look_again_s = self._mover.consider(capacity, lease_id, state)
                return Waiting(lease_id=lease_id, base=base, attempt=attempt, look_again_s=look_again_s)
            if decision.action is Action.REPLACE:
                state, decision = self._end_then_look_again(lease_id, base, decision.reason)
            self._close_attempt(call, capacity, attempt, lease_id, base, decision, state)
            if decision.action is Action.DONE:
                return Finished(result=dict(state.result or {}), attempt=attempt)
            if decision.action in (Action.FAIL_INPUT, Action.FAIL_ERROR):
                self._raise(call, attempt, base, state, decision.action)
        raise JobFailedError(f"job {call.job} made no progress in {_MOVES} moves")

    def _attach(self, call: JobCall, capacity: Capacity) -> tuple[int, str, str] | Delayed:
        """The open attempt, or a new one on a live lease; its request is in the store when this returns."""
        attempt = self._ledger.open_attempt(dag_id=call.dag_id, run_id=call.run_id, job=call.job)
        if attempt is not None:
            number, lease_id = attempt.number, attempt.lease_id
        else:
            self._check_budget(call)
            found = self.ensure_lease(capacity)
            if isinstance(found, Delayed):
                return found
            lease_id = found
            number = self._ledger.begin_attempt(
                group_id=capacity.group_id, job=call.job, lease_id=lease_id, dag_id=call.dag_id, run_id=call.run_id
            )
        base = call.base(number)
        ticket = JobTicket(
            name=f"{run_key(call.run_id)}.{job_name(kind=call.kind, item=call.item, attempt=number)}",
            kind=call.kind,
            base=base,
            request_uri=self._store.uri(f"{base}/request.json"),
        )
        self._engine.submit(lease_id, ticket, call.request(number, base))
        return number, lease_id, base

    def _check_budget(self, call: JobCall) -> None:
        lost = self._ledger.preemptions(dag_id=call.dag_id, run_id=call.run_id, job=call.job)
        if lost > self._budget:
            raise JobFailedError(
                f"job {call.job}: preempted {lost} times, the budget is {self._budget} "
                "(PLIMSOLL_PREEMPTION_BUDGET); choose on-demand capacity"
            )

    def _end_then_look_again(self, lease_id: str, base: str, reason: str) -> tuple[JobState, Decision]:
        """A lease believed lost may have finished its job meanwhile: end it first, then poll once more."""
        own = self.end_lease(lease_id, reason=reason)
        state = self._engine.poll(lease_id, base)
        decision = decide(state, believed_lost=True)
        if decision.action is Action.REPLACE and own in OWN_REASONS:
            # Nobody took the capacity away, so this uses up nothing of the preemption budget.
            return state, Decision(action=decision.action, reason=own)
        return state, decision

    def _close_attempt(
        self,
        call: JobCall,
        capacity: Capacity,
        attempt: int,
        lease_id: str,
        base: str,
        decision: Decision,
        state: JobState,
    ) -> None:
        self._ledger.end_attempt(
            dag_id=call.dag_id,
            run_id=call.run_id,
            job=call.job,
            attempt=attempt,
            reason=decision.reason,
            details={"exit_code": state.exit_code},
        )
        if capacity.shared:
            settle_job(store=self._store, ledger=self._ledger, call=call, attempt=attempt, lease_id=lease_id, base=base)
        if decision.action is not Action.REPLACE or decision.reason == "moved":
            return
        if decision.reason == "budget":
            error = budget_error(self._store, self._ledger, call, capacity)
            tell_budget(self._ledger, capacity, lease_id=lease_id, message=str(error))
            raise error
        message = f"{call.job} attempt {attempt} was {decision.reason}: {state.reason or 'its capacity went away'}"
        tell_interruption(self._ledger, capacity, lease_id=lease_id, message=message)

    def _raise(self, call: JobCall, attempt: int, base: str, state: JobState, action: Action) -> None:
        outcome = self._store.get_json(f"{base}/outcome.json") or {}
        cause = str(outcome.get("error") or state.reason or f"exit code {state.exit_code}")
        message = f"job {call.job} attempt {attempt}: {cause}"
        if action is Action.FAIL_INPUT:
            raise JobInputError(message)
        raise JobFailedError(message)
