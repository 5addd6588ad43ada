"""The budget is crossed in the middle of a training: real agent, real job, real accounts, on this machine.

What has to come of it: a committed checkpoint, the lease given back, one line that says why and what to do, no
preemption counted, and, once the budget is raised, a training that goes on from there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from include.compute.driver import Capacity, Delayed, Finished, JobCall, JobDriver, Waiting
from include.compute.engines.local import LocalEngine
from include.compute.lifeline import LONGEST_GRACE_S
from include.config.settings import Settings
from include.core.contracts.lease import LaunchRequest, LeaseState
from include.core.errors import BudgetExceededError
from include.core.ids import run_prefix
from include.core.store import ObjectStore
from include.ledger.budget import budget_of, raise_budget
from include.ledger.ledger import IntentLimits, Ledger
from include.ledger.migrate import migrate
from tests.support.training import tiny_workload, train_request, write_dataset

pytestmark = pytest.mark.drill

DAG, RUN, GROUP = "digits", "test-run", "train-budget"
NAMES = {"dag_id": DAG, "run_id": RUN}
# A dollar a second: what a second of reaction costs can be read off.
USD_PER_H = "3600"
ROWS = {"train": 650, "validation": 40, "test": 40}
STEPS = 1260
EPOCHS = 60
_log = logging.getLogger("plimsoll.drill")


class Place:
    """One run with a budget."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(
            store=f"file://{folder / 'store'}", ledger=f"sqlite:///{folder / 'ledger.db'}", work_root=folder / "work"
        )
        migrate(self.settings.ledger)
        self.store, self.ledger = ObjectStore(self.settings.store), Ledger(self.settings.ledger)
        self.engine = LocalEngine(self.store, self.settings)
        self.dataset = write_dataset(self.store, rows=ROWS)
        self.ordered, self.epochs = Decimal(1), EPOCHS
        self.call = JobCall(
            **NAMES, run_prefix=run_prefix(workload=DAG, run_id=RUN), kind="train", item="", request=self._request
        )

    def _request(self, attempt: int, base: str) -> dict[str, Any]:
        del base
        order = tiny_workload(hidden=(300, 300), epochs=self.epochs, lr=0.001, checkpoint_every_steps=200)
        return train_request(self.dataset, attempt=attempt, order=order).model_dump(mode="json")

    def capacity(self) -> Capacity:
        budget = budget_of(self.ledger, **NAMES, ordered=self.ordered)
        return Capacity(group_id=GROUP, **NAMES, launch=_launch, limits=IntentLimits(budget_usd=budget))

    def advance(self) -> Finished | Waiting | Delayed:
        """One move of a driver that remembers nothing."""
        driver = JobDriver(store=self.store, ledger=self.ledger, engine=self.engine, preemption_budget=3)
        return driver.advance(self.call, self.capacity())

    def follow(self, until: Callable[[Any], bool], *, timeout_s: float = 300.0) -> Any:
        """Move the job on until its state will do; what it raises goes on to the caller."""
        deadline = time.monotonic() + timeout_s
        while not until(step := self.advance()):
            assert time.monotonic() < deadline, f"still {step}"
            time.sleep(0.2)
        return step

    def step_of(self, waiting: Waiting) -> int:
        beat = self.store.get_json(f"{waiting.base}/heartbeat.json") or {}
        return int((beat.get("progress") or {}).get("step") or 0)

    def committed(self) -> int:
        keys = [key for key, _ in self.store.list(f"{self.call.run_prefix}/checkpoints") if key.endswith("COMMIT.json")]
        return max((int(key.split("/")[-2].split("-")[1]) for key in keys), default=0)

    def reasons(self) -> list[str | None]:
        return [attempt.reason for attempt in self.ledger.attempts(**NAMES)]


def _launch(lease_id: str, generation: int) -> LaunchRequest:
    del generation
    return LaunchRequest(
        lease_id=lease_id, group_id=GROUP, **NAMES, expires_after_s=600, idle_s=60, usd_per_h=USD_PER_H,
        tags={"usd_per_h": USD_PER_H, "purchase": "local"},
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Any:
    found = Place(tmp_path)
    yield found
    found.engine.stop_all(reason="end of the test")


def done(step: object) -> bool:
    return isinstance(step, Finished)


def seconds_over(place: Place, since: float) -> float:
    """Log what the reaction took; a second costs a dollar here."""
    spent = place.ledger.totals(**NAMES).usd
    assert spent is not None
    took = time.monotonic() - since
    _log.warning("given back %.1f s after the order; %s USD spent, budget %s USD", took, spent, place.ordered)
    return took


def check_given_back(place: Place, error: BudgetExceededError) -> int:
    committed = place.committed()
    assert 0 < committed < STEPS
    assert f"committed up to step {committed} of {STEPS}" in str(error)
    assert f"make raise-budget RUN={DAG}/{RUN}" in str(error)
    assert all(lease.state is LeaseState.ENDED for lease in place.engine.find())
    assert place.ledger.open_lease(GROUP) is None
    assert place.reasons() == ["budget"]
    assert place.ledger.preemptions(**NAMES, job="train") == 0
    return committed


def test_a_training_that_is_told_of_its_budget_commits_leaves_and_goes_on_later(place: Place) -> None:
    place.ordered = Decimal(10_000)
    running = place.follow(lambda step: isinstance(step, Waiting) and place.step_of(step) > STEPS // 5)
    told_at = time.monotonic()
    order = {"reason": "budget", "grace_s": LONGEST_GRACE_S}
    place.store.create_json(f"leases/{running.lease_id}/stop.json", order)
    with pytest.raises(BudgetExceededError) as caught:
        place.follow(done)
    committed = check_given_back(place, caught.value)
    assert seconds_over(place, told_at) < LONGEST_GRACE_S
    finished = place.follow(done)
    assert (finished.attempt, finished.result["resumed_step"], finished.result["steps"]) == (2, committed, STEPS)
    assert place.reasons() == ["budget", "done"]


@pytest.mark.long
def test_a_lease_that_has_spent_the_budget_leaves_by_itself_and_the_run_goes_on_when_it_is_raised(place: Place) -> None:
    place.ordered, place.epochs = Decimal(45), 20_000
    with pytest.raises(BudgetExceededError) as caught:
        place.follow(done, timeout_s=400)
    committed = place.committed()
    assert f"committed up to step {committed} of " in str(caught.value)
    spent = place.ledger.totals(**NAMES).usd
    assert spent is not None
    assert place.ordered <= spent < place.ordered + Decimal(LONGEST_GRACE_S)
    _log.warning("overspent %s USD at a dollar a second", spent - place.ordered)
    with pytest.raises(BudgetExceededError):
        place.advance()
    raise_budget(place.ledger, **NAMES, ordered=place.ordered, usd=Decimal(10_000))
    again = place.follow(lambda step: isinstance(step, Waiting) and place.step_of(step) > committed)
    assert again.attempt == 2
