"""A job on rented capacity: waits for it, watches its spend, and comes back from everything that happens to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from include.config.workload import Workload
from include.core.contracts.lease import LaunchRequest, Lease, LeaseState
from include.core.contracts.plan import Plan
from include.core.errors import NoCapacityError
from include.ledger.alerts import has_alert
from plimsoll.hooks.installation import Installation
from plimsoll.operators.resumable_training import ResumableTrainingOperator
from plimsoll.operators.run_job import RunJobOperator
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.job_trigger import JobTrigger
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

DATASET = {"uri": "file:///d/manifest.json", "fingerprint": "abc", "rows": {"train": 10, "validation": 2, "test": 3}}
INSTANCE = "i-0123456789abcdef0"
RUN = {"dag_id": DAG_ID, "run_id": RUN_ID}


@pytest.fixture
def ready(place: Installation, digits: Workload, planned: Plan) -> Installation:
    """A planned run with a budget of 10 USD on EC2."""
    limits = digits.limits.model_copy(update={"budget_usd": 10.0})
    write_run(place, digits.model_copy(update={"limits": limits}))
    launch = place.engine.launch

    def rent(request: LaunchRequest) -> Lease:
        lease = launch(request)
        details = {"engine": "ec2", "region": "us-east-1", "zone": "us-east-1a", "instance_ids": INSTANCE}
        return Lease(lease_id=lease.lease_id, group_id=lease.group_id, state=lease.state, details=details)

    place.engine.launch = rent
    return place


@pytest.fixture
def ti() -> FakeTaskInstance:
    return FakeTaskInstance(xcoms={"prepare": {"dataset": DATASET}})


def train() -> ResumableTrainingOperator:
    return ResumableTrainingOperator(task_id="train")


def deferral(move: Callable[[], Any]) -> Any:
    with pytest.raises(TaskDeferred) as caught:
        move()
    return caught.value.trigger


def spends(place: Installation, lease_id: str, usd: str) -> None:
    beat = {"sequence": 1, "state": "busy", "spend_usd": usd, "at": "2026-11-30T12:00:00+00:00"}
    place.store.put_json(f"leases/{lease_id}/heartbeat.json", beat)


def budget_event(trigger: JobTrigger, status: str, usd: str) -> dict[str, Any]:
    return {
        "status": status,
        "spend_usd": usd,
        "lease_id": trigger.lease_id,
        "base": trigger.base,
        "printed": 4,
        "rebalance_seen": None,
    }


def test_the_watch_knows_instances_boot_and_budget(ready: Installation, ti: FakeTaskInstance) -> None:
    trigger = deferral(lambda: train().execute(context(ti)))
    assert trigger.instances == {"region": "us-east-1", "ids": [INSTANCE]}
    assert trigger.boot_until == pytest.approx(time.time() + 900, abs=60)
    assert trigger.budget == {"limit_usd": "10", "spent_usd": "0", "warned": False}
    assert trigger.leave_by is None


def test_the_shared_lease_has_no_budget_and_no_instance(ready: Installation, ti: FakeTaskInstance) -> None:
    operator = RunJobOperator(task_id="prepare", kind="prepare")
    operator.patience = operator.patience * 0
    trigger = deferral(lambda: operator.execute(context(ti)))
    assert (trigger.instances, trigger.budget, trigger.nonce) == (None, None, "")


def test_a_recovery_without_capacity_waits_and_then_goes_on(ready: Installation, ti: FakeTaskInstance) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    ready.engine.finish(first.base, exit_code=75)
    launch, refused = ready.engine.launch, []

    def refuse_twice(request: LaunchRequest) -> Lease:
        if len(refused) < 2:
            refused.append(request.lease_id)
            raise NoCapacityError("p4d.24xlarge: none in three zones", retry_after_s=45.0)
        return launch(request)

    ready.engine.launch = refuse_twice
    exited = {"status": "exited", "lease_id": first.lease_id, "base": first.base, "printed": 9}
    wait = deferral(lambda: operator.resume(context(ti), exited))
    assert isinstance(wait, CapacityTrigger)
    assert wait.retry_after_s == 45.0
    assert "p4d.24xlarge" in ti.pushed["capacity"]["reason"]
    assert isinstance(deferral(lambda: operator.resume(context(ti), {"status": "ask_again"})), CapacityTrigger)
    # A worker that was killed meanwhile, or a clear: a fresh task finds the same state.
    second = deferral(lambda: train().execute(context(ti)))
    assert isinstance(second, JobTrigger)
    assert second.lease_id != first.lease_id
    assert second.base.endswith("/jobs/train-2")
    assert second.printed == 0
    running = [lease for lease in ready.engine.requests if ready.engine.describe(lease).state is LeaseState.RUNNING]
    assert running == [second.lease_id]


def test_four_fifths_of_the_budget_are_told_once(ready: Installation, ti: FakeTaskInstance) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    spends(ready, first.lease_id, "8.5")
    event = budget_event(first, "budget_80", "8.5")
    second = deferral(lambda: operator.resume(context(ti), event))
    assert (second.base, second.lease_id, second.printed) == (first.base, first.lease_id, 4)
    assert second.budget == {"limit_usd": "10", "spent_usd": "0", "warned": True}
    assert not ready.store.exists(f"leases/{first.lease_id}/stop.json")
    deferral(lambda: operator.resume(context(ti), event))
    [alert] = [each for each in ready.ledger.events(kind="alert") if each.body["kind"] == "budget_80"]
    assert "8.5000 of 10" in alert.body["message"]


def test_at_the_whole_budget_the_agent_is_asked_to_let_the_job_commit_and_to_leave(
    ready: Installation, ti: FakeTaskInstance
) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    spends(ready, first.lease_id, "10.02")
    second = deferral(lambda: operator.resume(context(ti), budget_event(first, "budget_reached", "10.02")))
    order = ready.store.get_json(f"leases/{first.lease_id}/stop.json")
    assert order["reason"] == "budget"
    assert order["grace_s"] > 0
    assert second.budget is None
    assert time.time() + order["grace_s"] < second.leave_by < time.time() + order["grace_s"] + 120
    assert has_alert(ready.ledger, kind="budget_reached", key=first.lease_id, **RUN)
    # A restart of anything does not grant another grace.
    again = deferral(lambda: train().execute(context(ti)))
    assert again.leave_by == second.leave_by


def test_a_stricter_order_to_leave_stays(ready: Installation, ti: FakeTaskInstance) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    ready.store.put_json(f"leases/{first.lease_id}/stop.json", {"by": "trigger on_kill"})
    deferral(lambda: operator.resume(context(ti), budget_event(first, "budget_reached", "11")))
    assert ready.store.get_json(f"leases/{first.lease_id}/stop.json") == {"by": "trigger on_kill"}


def test_a_mark_that_is_not_crossed_any_more_stops_nothing(ready: Installation, ti: FakeTaskInstance) -> None:
    """The budget was raised between the trigger's look and the task's."""
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    deferral(lambda: operator.resume(context(ti), budget_event(first, "budget_reached", "9")))
    assert not ready.store.exists(f"leases/{first.lease_id}/stop.json")


def test_the_budget_ends_the_task_with_the_lease_given_back(ready: Installation, ti: FakeTaskInstance) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    spends(ready, first.lease_id, "10.5")
    deferral(lambda: operator.resume(context(ti), budget_event(first, "budget_reached", "10.5")))
    ready.engine.finish(first.base, exit_code=75)
    exited = {"status": "exited", "lease_id": first.lease_id, "base": first.base, "printed": 9}
    with pytest.raises(AirflowFailException, match="budget"):
        operator.resume(context(ti), exited)
    assert len(ready.engine.requests) == 1, "no lease is launched beyond the budget"
    assert ready.engine.describe(first.lease_id).state is LeaseState.ENDED
    [attempt] = ready.ledger.attempts(**RUN)
    assert attempt.reason == "budget"
    assert ready.ledger.preemptions(job="train", **RUN) == 0


def test_what_the_run_spent_elsewhere_counts(ready: Installation, ti: FakeTaskInstance) -> None:
    place = ready
    other = place.ledger.intent(group_id="work-x", **RUN)
    spends(place, other.lease_id, "1.25")
    stranger = place.ledger.intent(group_id="train-y", dag_id=DAG_ID, run_id="another")
    spends(place, stranger.lease_id, "5")
    trigger = deferral(lambda: train().execute(context(ti)))
    assert Decimal(trigger.budget["spent_usd"]) == Decimal("1.25")


@pytest.mark.parametrize(
    "event",
    [
        {"status": "rebalance", "rebalance_seen": "2026-11-30T12:00:00Z"},
        {"status": "look_again", "rebalance_seen": None},
        {"status": "ask_again"},
    ],
)
def test_a_look_that_changes_nothing_goes_on_watching(
    ready: Installation, ti: FakeTaskInstance, event: dict[str, Any]
) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    told = {"lease_id": first.lease_id, "base": first.base, "printed": 2, **event}
    second = deferral(lambda: operator.resume(context(ti), told))
    assert (second.lease_id, second.base) == (first.lease_id, first.base)
    assert second.rebalance_seen == event.get("rebalance_seen")


def test_a_cleared_task_re_attaches_to_the_running_machine(ready: Installation, ti: FakeTaskInstance) -> None:
    first = deferral(lambda: train().execute(context(ti)))
    second = deferral(lambda: train().execute(context(ti)))
    assert (second.lease_id, second.base) == (first.lease_id, first.base)
    assert second.nonce != first.nonce, "the watch of the cleared task sees that somebody came back"
    assert len(ready.engine.requests) == 1


def test_a_machine_that_is_gone_is_replaced_once_however_often_it_is_told(
    ready: Installation, ti: FakeTaskInstance
) -> None:
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    lost = {"status": "lost", "lease_id": first.lease_id, "base": first.base, "printed": 1, "why": "terminated"}
    second = deferral(lambda: operator.resume(context(ti), lost))
    third = deferral(lambda: operator.resume(context(ti), lost))
    assert second.lease_id == third.lease_id != first.lease_id
    assert len(ready.engine.requests) == 2
    assert has_alert(ready.ledger, kind="interruption", key=first.lease_id, **RUN)


def test_the_result_of_a_job_whose_machine_is_gone_counts(ready: Installation, ti: FakeTaskInstance) -> None:
    """It wrote its result, then the machine was taken away before its last heartbeat."""
    operator = train()
    first = deferral(lambda: operator.execute(context(ti)))
    ready.engine.finish(first.base, exit_code=0, result={"steps": 5})
    lost = {"status": "lost", "lease_id": first.lease_id, "base": first.base, "printed": 1, "why": "terminated"}
    assert operator.resume(context(ti), lost)["steps"] == 5
    assert len(ready.engine.requests) == 1
