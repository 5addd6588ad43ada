"""What the driver is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from include.compute.capacity_choice.question import RecoveryTerms
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.ids import job_name
from include.ledger.ledger import IntentLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The capacity group a job runs on.

    Attributes:
        group_id: What the leases are found by.
        dag_id: Owner in the ledger; empty for the shared control group.
        run_id: Owner in the ledger; empty for the shared control group.
        launch: Builds the launch request of a lease id and generation.
        limits: Budget and quota checked with every intent; ``commit_usd`` is that of the whole work.
        candidates: Offers that would do, best first; empty where there is one kind of capacity and nothing to choose.
        terms: What the choice among the candidates rests on, None where nothing is chosen.
    """

    group_id: str
    dag_id: str
    run_id: str
    launch: Callable[[str, int], LaunchRequest]
    limits: IntentLimits | None = None
    candidates: tuple[LaunchCandidate, ...] = ()
    terms: RecoveryTerms | None = None

    @property
    def shared(self) -> bool:
        """Whether runs share the group, as they do the control group."""
        return not self.run_id

    @property
    def budget_usd(self) -> Decimal | None:
        """What the run may spend in all."""
        return None if self.limits is None else self.limits.budget_usd


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
    """The job is queued or running; watch it and come back.

    Attributes:
        lease_id: Lease it is on.
        base: Store prefix of the attempt.
        attempt: Its number.
        look_again_s: Seconds after which another look makes sense although nothing happened, because cheaper capacity
            may be there by then; None where only the job's own news matter.
    """

    lease_id: str
    base: str
    attempt: int
    look_again_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """There is no capacity now: nothing runs and nothing is paid for; come back.

    Attributes:
        reason: One sentence for people.
        retry_after_s: Seconds after which another try makes sense.
        position: Place in the queue of a team's quota, from 1; None where no quota is in the way.
    """

    reason: str
    retry_after_s: float
    position: int | None = None
