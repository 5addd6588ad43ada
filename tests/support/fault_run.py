"""One run in a random fault sequence: what it trains, on what terms, and where Airflow's database has it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from include.compute.capacity_choice.question import RecoveryTerms, Strategy
from include.compute.driver import Capacity, JobCall
from include.config.quota_file import TeamQuota
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.ids import group_id, run_prefix
from include.ledger.ledger import IntentLimits
from tests.support.fault_hub import Actor
from tests.support.fault_plan import REGION

HOUR_S = 3600.0


@dataclass
class Run:
    """One run of a workload, and where Airflow's database has it."""

    seed: int
    number: int
    candidates: tuple[LaunchCandidate, ...]
    quota: bool
    phase: str = "provision"  # provision, train, release, over
    state: str = "running"  # Airflow's word for the run
    outcome: str = ""
    result: dict[str, Any] | None = None
    actors: list[Actor] = field(default_factory=list)
    suspect: str | None = None
    release_tries: int = 0

    def __post_init__(self) -> None:
        self.dag_id, self.run_id = "drill", f"run-{self.number}"
        self.group = group_id(dag_id=self.dag_id, run_id=self.run_id, group="train")
        self.prefix = run_prefix(workload=self.dag_id, run_id=self.run_id)
        chance = random.Random(f"run {self.seed} {self.number}")
        self.steps = chance.choice((150, 400, 900, 2000))
        self.interval = chance.choice((50, 120, 400))
        self.dies_at = [chance.uniform(0, self.steps)] if chance.random() < 0.1 else []
        self.terms = self._terms(chance) if chance.random() < 0.6 else None
        self.budget = Decimal(chance.choice(("0.05", "0.30"))) if chance.random() < 0.1 else None

    def _terms(self, chance: random.Random) -> RecoveryTerms:
        return RecoveryTerms(
            strategy=chance.choice(list(Strategy)),
            chosen_by="drill",
            work_s=float(self.steps),
            deadline_in_s=chance.choice((None, 1.2, 2.0, 6.0)) and self.steps * chance.choice((1.2, 2.0, 6.0)),
            start_s=30.0,
            interval_s=float(self.interval),
            home_region=REGION,
        )

    @property
    def capacity(self) -> Capacity:
        quota = TeamQuota(gpus=1) if self.quota else None
        return Capacity(
            group_id=self.group,
            dag_id=self.dag_id,
            run_id=self.run_id,
            launch=self._request,
            candidates=self.candidates,
            terms=self.terms,
            limits=IntentLimits(
                team="drill", gpus=1, usd_per_h=Decimal(2), quota=quota, budget_usd=self.budget, commit_usd=None
            ),
        )

    def _request(self, lease_id: str, generation: int) -> LaunchRequest:
        return LaunchRequest(
            lease_id=lease_id,
            group_id=self.group,
            run_id=self.run_id,
            dag_id=self.dag_id,
            expires_after_s=HOUR_S,
            idle_s=180.0,
            engine="ec2",
        )

    @property
    def call(self) -> JobCall:
        order = {"steps": self.steps, "interval": self.interval, "dies_at": self.dies_at}
        return JobCall(
            dag_id=self.dag_id,
            run_id=self.run_id,
            run_prefix=self.prefix,
            kind="train",
            item="",
            request=lambda attempt, base: order if attempt == 1 else {**order, "dies_at": []},
        )
