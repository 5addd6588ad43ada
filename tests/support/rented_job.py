"""One training of one run on the EC2 double: the real driver, ledger and engine, and an agent played by the test."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from include.compute.capacity_choice.question import RecoveryTerms, Strategy
from include.compute.driver import Capacity, Delayed, Finished, JobCall, JobDriver, Waiting
from include.compute.launching import build_launch_request
from include.core.clock import iso
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.contracts.offer import PurchaseOption
from include.core.ids import run_prefix
from include.ledger.ledger import IntentLimits, Ledger
from include.ledger.migrate import migrate
from tests.support.ec2_rig import ON_DEMAND, REGION, SPOT, Rig
from tests.support.offers import offer

DAG, RUN, GROUP = "digits", "manual__1", "train-abc"
TERMS = RecoveryTerms(
    strategy=Strategy.GREEDY, chosen_by="test", work_s=3600.0, start_s=60.0, interval_s=60.0, home_region=REGION
)


def any_request(attempt: int, base: str) -> dict[str, Any]:
    return {"attempt": attempt, "base": base}


@dataclass(kw_only=True)
class RentedJob:
    """Driver and double on one clock."""

    folder: Path
    rig: Rig = field(init=False)
    rig_over: dict[str, Any] = field(default_factory=dict)
    capacity_wait_s: float = 3600.0
    preemption_budget: int = 3
    instances: int = 1
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.rig = Rig(folder=self.folder, **self.rig_over)
        url = f"sqlite:///{self.folder / 'ledger.db'}"
        migrate(url)
        self.ledger = Ledger(url, clock=self.rig.clock)
        self.call = JobCall(
            dag_id=DAG, run_id=RUN, run_prefix=run_prefix(workload=DAG, run_id=RUN), kind="train", item="",
            request=any_request,
        )  # fmt: skip

    @property
    def driver(self) -> JobDriver:
        """A process that remembers nothing."""
        return JobDriver(
            store=self.rig.store,
            ledger=self.ledger,
            engine=self.rig.another_process(),
            preemption_budget=self.preemption_budget,
            capacity_wait_s=self.capacity_wait_s,
            clock=self.rig.clock,
        )

    def capacity(
        self,
        *candidates: LaunchCandidate,
        budget_usd: str | None = None,
        commit_usd: str | None = None,
        terms: RecoveryTerms | None = None,
        limits: IntentLimits | None = None,
    ) -> Capacity:
        limits = limits or IntentLimits(
            budget_usd=None if budget_usd is None else Decimal(budget_usd),
            commit_usd=None if commit_usd is None else Decimal(commit_usd),
        )
        return Capacity(
            group_id=GROUP, dag_id=DAG, run_id=RUN, launch=self._launch, limits=limits,
            candidates=candidates or (SPOT, ON_DEMAND), terms=terms or TERMS,
        )  # fmt: skip

    def _launch(self, lease_id: str, generation: int) -> LaunchRequest:
        first = offer(instance_type="g5.xlarge", purchase=PurchaseOption.SPOT)
        return build_launch_request(
            lease_id, generation, settings=self.rig.settings, group_id=GROUP, dag_id=DAG, run_id=RUN, offer=first,
            drill_at=None,
            instances=self.instances,
        )  # fmt: skip

    def advance(self, capacity: Capacity | None = None, **fields: Any) -> Finished | Waiting | Delayed:
        return self.driver.advance(self.call, capacity or self.capacity(), **fields)

    def run_on(self, waiting: Waiting, *, step: int, total: int = 100) -> None:
        """The agent is up and its job has committed a step."""
        self.rig.boot(waiting.lease_id)
        self.progress(waiting, step=step, total=total)

    def progress(self, waiting: Waiting, *, step: int, total: int = 100, state: str = "running", **fields: Any) -> None:
        shown = {"fraction": step / total, "step": step, "total": total}
        beat = {"sequence": step + 1, "at": iso(self.rig.clock.now()), "state": state, "progress": shown, **fields}
        steps = {"resumed_step": 0, "last_executed_step": step, "committed_step": step, "useful_s": float(step)}
        self.rig.store.put_json(f"{waiting.base}/steps.json", steps)
        self.rig.store.put_json(f"{waiting.base}/heartbeat.json", beat)

    def exit(self, waiting: Waiting, *, step: int, code: int, reason: str = "preempted") -> None:
        """The job ends, and its agent says goodbye and shuts its machine down."""
        self.progress(waiting, step=step, state="exited", exit_code=code)
        if code == 0:
            self.rig.store.put_json(f"{waiting.base}/result.json", {"steps": step})
            return
        self.rig.last_word(reason, waiting.lease_id)

    def alerts(self) -> list[str]:
        found = self.ledger.events(dag_id=DAG, run_id=RUN, kind="alert")
        return [event.body["kind"] for event in reversed(found)]

    def reasons(self) -> list[str | None]:
        return [attempt.reason for attempt in self.ledger.attempts(dag_id=DAG, run_id=RUN)]

    def charged_usd(self) -> Decimal:
        usd = self.ledger.totals(dag_id=DAG, run_id=RUN).usd
        assert usd is not None
        return usd


def with_terms(**fields: Any) -> RecoveryTerms:
    return replace(TERMS, **fields)
