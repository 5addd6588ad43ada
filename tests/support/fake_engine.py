"""An engine in memory. It passes the port suite of the real engines, and tests can make it break at will."""

from __future__ import annotations

from typing import Any

from include.core.contracts.demand import Demand
from include.core.contracts.lease import JobPhase, JobState, JobTicket, LaunchRequest, Lease, LeaseState, ReleaseReport
from include.core.contracts.offer import Offer
from include.core.errors import GroupClosedError


class FakeEngine:
    """Leases and jobs as dictionaries; `jobs` may be set by the test to say what a job does next."""

    name = "fake"

    def __init__(self) -> None:
        self.requests: dict[str, LaunchRequest] = {}
        self.ended: dict[str, str] = {}
        self.stopped: set[str] = set()
        self.jobs: dict[str, JobState] = {}
        self.submitted: list[tuple[str, str]] = []

    def offers(self, demand: Demand | None) -> tuple[Offer, ...]:
        return ()

    def launch(self, request: LaunchRequest) -> Lease:
        if request.lease_id in self.stopped:
            raise GroupClosedError(f"lease {request.lease_id} was told to stop")
        self.requests.setdefault(request.lease_id, request)
        return self.describe(request.lease_id)

    def describe(self, lease_id: str) -> Lease:
        request = self.requests.get(lease_id)
        if lease_id in self.ended:
            state = LeaseState.ENDED
        else:
            state = LeaseState.STARTING if request is None else LeaseState.RUNNING
        return Lease(
            lease_id=lease_id,
            group_id=request.group_id if request else lease_id.rpartition("-g")[0],
            state=state,
            dag_id=request.dag_id if request else "",
            run_id=request.run_id if request else "",
        )

    def submit(self, lease_id: str, ticket: JobTicket, request: dict[str, Any]) -> None:
        if (lease_id, ticket.base) not in self.submitted:
            self.submitted.append((lease_id, ticket.base))
        self.jobs.setdefault(ticket.base, JobState(phase=JobPhase.QUEUED))

    def poll(self, lease_id: str, base: str) -> JobState:
        state = self.jobs.get(base, JobState(phase=JobPhase.QUEUED))
        if state.phase is not JobPhase.EXITED and lease_id in self.ended:
            return JobState(phase=JobPhase.LOST, reason=self.ended[lease_id])
        return state

    def stop(self, lease_id: str, *, reason: str) -> str:
        self.stopped.add(lease_id)
        if lease_id in self.ended:
            return "had ended"
        self.ended[lease_id] = reason
        return "left by itself"

    def release(self, group_id: str) -> ReleaseReport:
        found = [lease.lease_id for lease in self.find(group_id=group_id)]
        return ReleaseReport(ended={lease_id: self.stop(lease_id, reason="released") for lease_id in found})

    def find(self, *, group_id: str | None = None) -> tuple[Lease, ...]:
        return tuple(
            self.describe(lease_id)
            for lease_id, request in self.requests.items()
            if group_id is None or request.group_id == group_id
        )

    def finish(self, base: str, *, exit_code: int, result: dict[str, Any] | None = None) -> None:
        """Make a job exit."""
        self.jobs[base] = JobState(phase=JobPhase.EXITED, exit_code=exit_code, result=result)
