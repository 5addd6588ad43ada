"""Submit, re-attach, recover: one piece of code for every class of job, without Airflow.

All state is in the ledger and the store, so `JobDriver.advance` may be called from a fresh process at any moment: by
the first execution of a task, after a deferral, by a retry, after a clear.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from include.compute.engine import Engine
from include.compute.recovery import Action, decide
from include.compute.settlement import settle_job, settle_lease
from include.core.contracts.lease import JobState, JobTicket, LaunchRequest, LeaseState
from include.core.errors import GroupClosedError, PlimsollError, UserError
from include.core.ids import job_name, run_key
from include.core.store import ObjectStore
from include.ledger.ledger import IntentLimits, Ledger

_log = logging.getLogger(__name__)
# One call moves at most this many attempts on; more means that something flaps, and the caller should see it.
_MOVES = 20


class JobFailedError(PlimsollError):
    """The job itself failed; a retry starts a new attempt."""


class JobInputError(UserError):
    """The job refused its input; no retry helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The capacity group a job runs on.

    Attributes:
        group_id: What the leases are found by.
        dag_id: Owner in the ledger; empty for the shared control group.
        run_id: Owner in the ledger; empty for the shared control group.
        launch: Builds the launch request of a lease id and generation.
        limits: Budget and quota checked with every intent.
    """

    group_id: str
    dag_id: str
    run_id: str
    launch: Callable[[str, int], LaunchRequest]
    limits: IntentLimits | None = None

    @property
    def shared(self) -> bool:
        """Whether runs share the group, as they do the control group."""
        return not self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """One job of one run.

    Attributes:
        dag_id: DAG of the run.
        run_id: Run.
        run_prefix: Store prefix of the run.
        kind: Job kind.
        item: Distinguishes mapped jobs of one kind.
        request: Builds the request from attempt number and base prefix.
    """

    dag_id: str
    run_id: str
    run_prefix: str
    kind: str
    item: str
    request: Callable[[int, str], dict[str, Any]]

    @property
    def job(self) -> str:
        """Key of the job in the ledger."""
        return f"{self.kind}.{self.item}" if self.item else self.kind

    def base(self, attempt: int) -> str:
        """Store prefix of one attempt."""
        return f"{self.run_prefix}/jobs/{job_name(kind=self.kind, item=self.item, attempt=attempt)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The job is done."""

    result: dict[str, Any]
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The job is queued or running; watch it and come back."""

    lease_id: str
    base: str
    attempt: int


class JobDriver:
    """Moves one job on as far as it goes without waiting.

    Args:
        store: The object store.
        ledger: The ledger.
        engine: Where the leases live.
        preemption_budget: Preemptions of one job before its run fails.
    """

    def __init__(self, *, store: ObjectStore, ledger: Ledger, engine: Engine, preemption_budget: int) -> None:
        self._store = store
        self._ledger = ledger
        self._engine = engine
        self._budget = preemption_budget

    def ensure_lease(self, capacity: Capacity, *, reopen: bool = False) -> str:
        """The group's live lease, launched if there is none; never two.

        Raises:
            GroupClosedError: The group was released and ``reopen`` is not set.
            BudgetExceededError: The launch would exceed a budget or quota.
        """
        lease_id = self._ledger.open_lease(capacity.group_id)
        if lease_id is not None and self._engine.describe(lease_id).state is LeaseState.ENDED:
            self.end_lease(lease_id, reason="found dead")
        intent = self._ledger.intent(
            group_id=capacity.group_id,
            dag_id=capacity.dag_id,
            run_id=capacity.run_id,
            reopen=reopen or capacity.shared,
            limits=capacity.limits,
        )
        request = capacity.launch(intent.lease_id, intent.generation)
        try:
            self._engine.launch(request)
        except GroupClosedError:
            if not (reopen or capacity.shared):
                raise
            # That lease was told to stop and is over for good; the group is open, so its next generation may start.
            self.end_lease(intent.lease_id, reason="told to stop")
            return self.ensure_lease(capacity, reopen=reopen)
        self._ledger.launched(
            group_id=capacity.group_id,
            lease_id=intent.lease_id,
            details={"engine": self._engine.name, **request.tags},
        )
        return intent.lease_id

    def end_lease(self, lease_id: str, *, reason: str) -> str:
        """Stop a lease, then write its end and its charge."""
        how = self._engine.stop(lease_id, reason=reason)
        settle_lease(store=self._store, ledger=self._ledger, lease_id=lease_id, reason=reason)
        _log.info("lease %s ended (%s): %s", lease_id, reason, how)
        return how

    def advance(self, call: JobCall, capacity: Capacity, *, lost_lease: str | None = None) -> Finished | Waiting:
        """Move the job on.

        Args:
            call: The job.
            capacity: Where it runs.
            lost_lease: A lease that the watcher believes lost.

        Raises:
            JobInputError: The job refused its input.
            JobFailedError: The job failed, or its preemption budget is used up.
        """
        for _ in range(_MOVES):
            attempt, lease_id, base = self._attach(call, capacity)
            state = self._engine.poll(lease_id, base)
            decision = decide(state, believed_lost=lost_lease == lease_id)
            _log.info("job %s attempt %s on %s: %s -> %s", call.job, attempt, lease_id, state.phase, decision.action)
            if decision.action is Action.WAIT:
                return Waiting(lease_id=lease_id, base=base, attempt=attempt)
            if decision.action is Action.REPLACE:
                state, decision = self._end_then_look_again(lease_id, base, decision.reason)
            self._close_attempt(call, capacity, attempt, lease_id, base, decision.reason, state)
            if decision.action is Action.DONE:
                return Finished(result=dict(state.result or {}), attempt=attempt)
            if decision.action in (Action.FAIL_INPUT, Action.FAIL_ERROR):
                self._raise(call, attempt, base, state, decision.action)
        raise JobFailedError(f"job {call.job} made no progress in {_MOVES} moves")

    def _attach(self, call: JobCall, capacity: Capacity) -> tuple[int, str, str]:
        """The open attempt, or a new one on a live lease; its request is in the store when this returns."""
        attempt = self._ledger.open_attempt(dag_id=call.dag_id, run_id=call.run_id, job=call.job)
        if attempt is not None:
            number, lease_id = attempt.number, attempt.lease_id
        else:
            self._check_budget(call)
            lease_id = self.ensure_lease(capacity)
            number = self._ledger.begin_attempt(
                group_id=capacity.group_id, job=call.job, lease_id=lease_id, dag_id=call.dag_id, run_id=call.run_id
            )
        base = call.base(number)
        request_key = f"{base}/request.json"
        ticket = JobTicket(
            name=f"{run_key(call.run_id)}.{job_name(kind=call.kind, item=call.item, attempt=number)}",
            kind=call.kind,
            base=base,
            request_uri=self._store.uri(request_key),
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

    def _end_then_look_again(self, lease_id: str, base: str, reason: str) -> tuple[JobState, Any]:
        """A lease believed lost may have finished its job meanwhile: end it first, then poll once more."""
        self.end_lease(lease_id, reason=reason)
        state = self._engine.poll(lease_id, base)
        decision = decide(state, believed_lost=True)
        return state, decision

    def _close_attempt(
        self, call: JobCall, capacity: Capacity, attempt: int, lease_id: str, base: str, reason: str, state: JobState
    ) -> None:
        self._ledger.end_attempt(
            dag_id=call.dag_id,
            run_id=call.run_id,
            job=call.job,
            attempt=attempt,
            reason=reason,
            details={"exit_code": state.exit_code},
        )
        if capacity.shared:
            settle_job(store=self._store, ledger=self._ledger, call=call, attempt=attempt, lease_id=lease_id, base=base)

    def _raise(self, call: JobCall, attempt: int, base: str, state: JobState, action: Action) -> None:
        outcome = self._store.get_json(f"{base}/outcome.json") or {}
        cause = str(outcome.get("error") or state.reason or f"exit code {state.exit_code}")
        message = f"job {call.job} attempt {attempt}: {cause}"
        if action is Action.FAIL_INPUT:
            raise JobInputError(message)
        raise JobFailedError(message)
