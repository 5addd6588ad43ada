"""The driver on rented capacity: refusals, waits, budgets, moves, and accounts that equal the provider's bill."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from include.compute.capacity_choice.question import Strategy
from include.compute.driver import Delayed, Finished, JobFailedError, Waiting
from include.config.quota_file import TeamQuota
from include.core.errors import BudgetExceededError, GroupClosedError, LaunchRefusedError
from include.ledger.budget import budget_of, raise_budget
from include.ledger.ledger import IntentLimits
from stack.ec2_double import Market
from tests.support.ec2_rig import ON_DEMAND, SPOT, in_zones
from tests.support.rented_job import DAG, GROUP, RUN, RentedJob, with_terms

PRICES = [
    {"type": "g5.xlarge", "purchase": "spot", "usd_per_h": "0.40"},
    {"type": "g5.xlarge", "purchase": "on-demand", "usd_per_h": "1.006"},
]
PLENTY = Market.of(prices=PRICES)
NO_SPOT = Market.of(prices=PRICES, capacity=[{"purchase": "spot", "instances": 0}])
NOTHING = Market.of(prices=PRICES, capacity=[{"instances": 0}])
RUN_NAMES = {"dag_id": DAG, "run_id": RUN}


@pytest.fixture
def job(tmp_path: Path) -> RentedJob:
    return RentedJob(folder=tmp_path, rig_over={"market": PLENTY, "boot_s": 2.0})


@pytest.fixture
def job_with(tmp_path: Path) -> Callable[..., RentedJob]:
    def make(*, market: Market = PLENTY, **fields: Any) -> RentedJob:
        return RentedJob(folder=tmp_path, rig_over={"market": market, "boot_s": 2.0}, **fields)

    return make


def waiting(step: Finished | Waiting | Delayed) -> Waiting:
    assert isinstance(step, Waiting), step
    return step


def delayed(step: Finished | Waiting | Delayed | str) -> Delayed:
    assert isinstance(step, Delayed), step
    return step


def no_leak(job: RentedJob) -> None:
    assert job.rig.living() == []
    job.rig.wait(120)
    bill = sum((each.usd for each in job.rig.double.bill()), Decimal(0))
    assert job.charged_usd().quantize(Decimal("0.01")) == bill.quantize(Decimal("0.01"))


def test_what_was_launched_is_in_the_ledger(job: RentedJob) -> None:
    first = waiting(job.advance())
    details = job.ledger.launch_details(first.lease_id) or {}
    (instance,) = job.rig.double.instances()
    assert details["engine"] == "ec2"
    assert details["zone"] == instance.zone
    assert details["instance_ids"] == instance.instance_id
    assert (details["purchase"], details["usd_per_h"]) == ("spot", "0.40")


def test_an_interruption_goes_on_elsewhere_and_is_paid_to_the_cent(job: RentedJob) -> None:
    first = waiting(job.advance())
    job.run_on(first, step=10)
    job.rig.wait(600)
    job.exit(first, step=40, code=75)
    second = waiting(job.advance())
    assert (second.lease_id, second.attempt) == (f"{GROUP}-g2", 2)
    job.run_on(second, step=60)
    job.rig.wait(900)
    job.exit(second, step=100, code=0)
    assert job.advance() == Finished(result={"steps": 100}, attempt=2)
    job.driver.end_lease(second.lease_id, reason="released")
    assert job.reasons() == ["preempted", "done"]
    assert job.alerts() == ["interruption"]
    no_leak(job)


def test_a_short_life_is_charged_for_a_minute(job: RentedJob) -> None:
    first = waiting(job.advance())
    job.rig.wait(1)
    job.driver.end_lease(first.lease_id, reason="released")
    (charge,) = job.ledger.charges(**RUN_NAMES)
    assert charge.paid_s == 60.0
    assert charge.effective_cost_usd == Decimal("0.00666667")


def test_a_gang_comes_together_or_not_at_all_and_each_instance_is_paid(job_with: Callable[..., RentedJob]) -> None:
    job = job_with(instances=2)
    capacity = job.capacity(terms=with_terms(instances=2))
    first = waiting(job.advance(capacity))
    assert len(job.rig.living()) == 2
    job.run_on(first, step=10)
    job.rig.wait(1800)
    job.driver.end_lease(first.lease_id, reason="released")
    (charge,) = job.ledger.charges(**RUN_NAMES)
    assert charge.paid_s == pytest.approx(2 * 1803, abs=60)
    no_leak(job)


class TestNoCapacity:
    def test_nothing_stays_open_and_the_next_try_has_another_name(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(market=NOTHING)
        step = delayed(job.advance())
        assert 0 < step.retry_after_s <= 120
        assert job.ledger.open_lease(GROUP) is None
        (event,) = job.ledger.events(kind="no_capacity")
        assert [tried["purchase"] for tried in event.body["tried"]] == ["spot", "on-demand"]
        job.rig.double._account.market = PLENTY
        job.rig.wait(step.retry_after_s)
        assert waiting(job.advance()).lease_id == f"{GROUP}-g2"
        assert len(job.rig.double.instances()) == 1

    def test_a_strategy_that_waits_asks_nobody(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(market=NO_SPOT)
        capacity = job.capacity(SPOT)
        delayed(job.advance(capacity))
        calls = job.rig.fleets()
        assert "refused lately" in delayed(job.advance(capacity)).reason
        assert job.rig.fleets() == calls

    def test_waiting_has_a_limit_that_names_what_was_tried(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(market=NOTHING, capacity_wait_s=300.0)
        asked = job.rig.clock.now()
        step = delayed(job.advance())
        while (job.rig.clock.now() - asked).total_seconds() + step.retry_after_s < 300:
            job.rig.wait(step.retry_after_s)
            step = delayed(job.advance())
        job.rig.wait(step.retry_after_s)
        with pytest.raises(LaunchRefusedError, match=r"no capacity came in time.*g5\.xlarge") as caught:
            job.advance()
        assert "PLIMSOLL_CAPACITY_WAIT_S" in str(caught.value)
        assert 300 <= (job.rig.clock.now() - asked).total_seconds() < 400
        assert job.ledger.open_lease(GROUP) is None
        assert job.alerts() == ["quota_refused"]

    def test_time_that_a_job_ran_does_not_count(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(market=NOTHING, capacity_wait_s=300.0)
        job.rig.wait(delayed(job.advance()).retry_after_s)
        job.rig.double._account.market = PLENTY
        first = waiting(job.advance())
        job.run_on(first, step=10)
        job.rig.wait(5000)
        job.exit(first, step=50, code=75)
        job.rig.double._account.market = NOTHING
        delayed(job.advance())

    def test_refusals_for_good_leave_no_lease_open(self, job: RentedJob) -> None:
        job.rig.double.faults.add(action="CreateFleet", code="UnauthorizedOperation", times=50)
        with pytest.raises(LaunchRefusedError):
            job.advance()
        assert job.ledger.open_lease(GROUP) is None
        assert job.alerts() == ["quota_refused"]

    def test_nothing_is_waited_for_on_behalf_of_a_run_that_is_over(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(market=NO_SPOT)
        delayed(job.advance(job.capacity(SPOT)))
        job.ledger.close(GROUP, **RUN_NAMES)
        with pytest.raises(GroupClosedError):
            job.advance(job.capacity(SPOT))

    def test_a_launch_that_was_announced_is_made_as_it_was_announced(self, job: RentedJob) -> None:
        job.rig.double.faults.add(action="CreateFleet", code="RequestLimitExceeded", times=1, after=True)
        first = waiting(job.advance())
        assert len(job.rig.double.instances()) == 1
        job.run_on(first, step=1)
        assert waiting(job.advance(job.capacity(ON_DEMAND))).lease_id == first.lease_id
        assert [each.purchase for each in job.rig.double.instances()] == ["spot"]

    def test_a_team_that_holds_its_quota_waits_in_the_queue(self, job: RentedJob) -> None:
        quota = TeamQuota(gpus=1)
        other = IntentLimits(team="vision", gpus=1, quota=quota)
        job.ledger.intent(group_id="train-other", dag_id="other", run_id="r", limits=other)
        step = delayed(job.driver.ensure_lease(job.capacity(limits=other)))
        assert step.position == 1
        assert job.rig.double.instances() == ()


class TestFallback:
    def test_on_demand_after_spot_is_told(self, job: RentedJob) -> None:
        first = waiting(job.advance())
        job.run_on(first, step=10)
        job.exit(first, step=10, code=75)
        job.rig.double._account.market = NO_SPOT
        second = waiting(job.advance())
        assert (job.ledger.launch_details(second.lease_id) or {})["purchase"] == "on-demand"
        assert job.alerts() == ["interruption", "fallback_on_demand"]

    def test_the_last_loss_of_the_budget_is_not_risked(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(preemption_budget=1)
        first = waiting(job.advance())
        job.run_on(first, step=10)
        job.exit(first, step=10, code=75)
        second = waiting(job.advance())
        assert (job.ledger.launch_details(second.lease_id) or {})["purchase"] == "on-demand"

    def test_preemptions_have_a_budget_of_their_own(self, job_with: Callable[..., RentedJob]) -> None:
        job = job_with(preemption_budget=1)
        capacity = job.capacity(SPOT)
        for _ in range(2):
            step = waiting(job.advance(capacity))
            job.run_on(step, step=1)
            job.exit(step, step=1, code=75)
        with pytest.raises(JobFailedError, match="the budget is 1"):
            job.advance(capacity)
        assert job.rig.living() == []

    def test_a_zone_that_took_capacity_away_comes_last(self, job: RentedJob) -> None:
        capacity = job.capacity(*in_zones(SPOT, "ab"), ON_DEMAND)
        first = waiting(job.advance(capacity))
        zone = (job.ledger.launch_details(first.lease_id) or {})["zone"]
        job.run_on(first, step=1)
        job.exit(first, step=1, code=75)
        second = waiting(job.advance(capacity))
        assert zone.endswith("a")
        assert (job.ledger.launch_details(second.lease_id) or {})["zone"].endswith("b")


class TestBudget:
    def spent(self, job: RentedJob) -> tuple[Waiting, BudgetExceededError]:
        first = waiting(job.advance(job.capacity(budget_usd="0.10", commit_usd="0.09")))
        job.run_on(first, step=10)
        job.rig.wait(1000)
        job.exit(first, step=55, code=75, reason="budget")
        with pytest.raises(BudgetExceededError) as caught:
            job.advance(job.capacity(budget_usd="0.10", commit_usd="0.09"))
        return first, caught.value

    def test_a_lease_knows_what_it_may_spend(self, job: RentedJob) -> None:
        first = waiting(job.advance(job.capacity(budget_usd="0.10", commit_usd="0.09")))
        spec = job.rig.store.get_json(f"leases/{first.lease_id}/spec.json") or {}
        assert Decimal(spec["spend_limit_usd"]) == Decimal("0.10")

    def test_a_spent_budget_ends_the_task_with_one_line_and_everything_given_back(self, job: RentedJob) -> None:
        _, error = self.spent(job)
        assert "committed up to step 55 of 100" in str(error)
        assert "make raise-budget RUN=digits/manual__1" in str(error)
        assert "\n" not in str(error)
        assert job.reasons() == ["budget"]
        assert job.ledger.preemptions(**RUN_NAMES, job="train") == 0
        assert job.alerts() == ["budget_reached"]
        no_leak(job)

    def test_it_goes_on_when_the_budget_is_raised(self, job: RentedJob) -> None:
        self.spent(job)
        with pytest.raises(BudgetExceededError):
            job.advance(job.capacity(budget_usd="0.10", commit_usd="0.09"))
        assert job.alerts() == ["budget_reached", "quota_refused"]
        ordered = Decimal("0.10")
        assert raise_budget(job.ledger, **RUN_NAMES, ordered=ordered, usd=Decimal("0.50")) == ordered
        now = budget_of(job.ledger, **RUN_NAMES, ordered=ordered)
        assert now == Decimal("0.50")
        second = waiting(job.advance(job.capacity(budget_usd=str(now), commit_usd="0.09")))
        assert second.attempt == 2
        spec = job.rig.store.get_json(f"leases/{second.lease_id}/spec.json") or {}
        assert Decimal(spec["spend_limit_usd"]) == Decimal("0.50") - job.charged_usd()

    def test_what_is_done_is_not_asked_for_again(self, job: RentedJob) -> None:
        capacity = job.capacity(budget_usd="0.45", commit_usd="0.40")
        first = waiting(job.advance(capacity))
        job.run_on(first, step=10)
        job.rig.wait(1800)
        job.exit(first, step=80, code=75)
        waiting(job.advance(capacity))

    def test_a_budget_is_never_lowered(self, job: RentedJob) -> None:
        with pytest.raises(Exception, match="only be raised"):
            raise_budget(job.ledger, **RUN_NAMES, ordered=Decimal(5), usd=Decimal(5))
        with pytest.raises(Exception, match="no budget"):
            raise_budget(job.ledger, **RUN_NAMES, ordered=None, usd=Decimal(5))


class TestMoves:
    def test_on_demand_is_left_for_spot_at_a_checkpoint_where_that_pays(self, job: RentedJob) -> None:
        terms = with_terms(
            strategy=Strategy.UNIFORM_PROGRESS, work_s=36_000.0, deadline_in_s=72_000.0,
            started_s=job.rig.clock.now().timestamp(),
        )  # fmt: skip
        capacity = job.capacity(terms=terms)
        job.rig.double._account.market = NO_SPOT
        job.rig.wait(delayed(job.advance(capacity)).retry_after_s)
        job.rig.wait(1200)
        first = waiting(job.advance(capacity))
        assert (job.ledger.launch_details(first.lease_id) or {})["purchase"] == "on-demand"
        job.run_on(first, step=1)
        job.rig.double._account.market = PLENTY
        job.rig.wait(3600)
        job.progress(first, step=60)
        stopped = waiting(job.advance(capacity))
        order = job.rig.store.get_json(f"leases/{first.lease_id}/stop.json") or {}
        assert order["reason"].startswith("moved")
        assert order["grace_s"] > 0
        job.exit(stopped, step=61, code=75, reason=order["reason"])
        second = waiting(job.advance(capacity))
        assert (job.ledger.launch_details(second.lease_id) or {})["purchase"] == "spot"
        assert job.reasons()[0] == "moved"
        assert job.ledger.preemptions(**RUN_NAMES, job="train") == 0

    def test_greedy_never_leaves(self, job: RentedJob) -> None:
        first = waiting(job.advance(job.capacity(ON_DEMAND)))
        job.run_on(first, step=1)
        assert waiting(job.advance(job.capacity(ON_DEMAND))).look_again_s is None
