"""Launch as a setup, release as its teardown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from include.compute.cancel_mark import mark_cancelled
from include.config.run_options import RunOptions
from include.config.workload import Workload
from include.core.contracts.lease import LeaseState
from include.core.contracts.plan import Plan
from include.core.errors import GroupClosedError
from plimsoll.hooks.installation import Installation
from plimsoll.operators.provision_gpu import ProvisionGpuOperator, ReleaseGpuOperator
from plimsoll.operators.wait_for_lease import WaitForLeaseOperator
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

TI = context(FakeTaskInstance())


@pytest.fixture
def provision() -> ProvisionGpuOperator:
    return ProvisionGpuOperator(task_id="provision", group="train")


def test_retries_make_no_second_lease(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    assert provision.execute(TI) == provision.execute(TI)
    assert len(place.engine.requests) == 1
    assert provision.retries >= 2


def test_the_launch_carries_its_own_end_and_its_price(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    lease_id = provision.execute(TI)["lease_id"]
    request = place.engine.requests[lease_id]
    assert 0 < request.expires_after_s <= place.settings.lease_expires_s
    assert planned.offer.price is not None
    assert request.usd_per_h == planned.offer.price.usd_per_h
    assert (request.dag_id, request.run_id) == (DAG_ID, RUN_ID)
    assert request.drill_notice_at is None


def test_the_drill_hits_the_first_generation_only(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits, options=RunOptions(interruption_drill=True, interruption_at=0.4))
    first = provision.execute(TI)["lease_id"]
    place.engine.ended[first] = "gone"
    second = provision.execute(TI)["lease_id"]
    assert [place.engine.requests[lease].drill_notice_at for lease in (first, second)] == [0.4, None]


def test_a_killed_setup_ends_its_lease(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    lease_id = provision.execute(TI)["lease_id"]
    provision.on_kill()
    assert place.engine.describe(lease_id).state is LeaseState.ENDED
    assert place.ledger.open_leases() == ()


def test_a_cancelled_run_is_not_brought_back_by_a_setup_that_is_tried_again(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    began = datetime.now(UTC)
    mark_cancelled(place.ledger, dag_id=DAG_ID, run_id=RUN_ID)
    task = context(FakeTaskInstance())
    task["dag_run"].start_date = began
    with pytest.raises(AirflowFailException, match="was cancelled"):
        provision.execute(task)
    assert place.engine.requests == {}
    task["dag_run"].start_date = datetime.now(UTC) + timedelta(seconds=1)  # cleared: the run begins anew
    assert provision.execute(task)["state"] == "launched"


def test_a_setup_killed_before_its_intent_ends_nothing(place: Installation, provision: ProvisionGpuOperator) -> None:
    provision.on_kill()
    assert place.engine.ended == {}


def test_quota_is_checked_with_the_intent(
    place: Installation, digits: Workload, planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(place, digits)
    place.ledger.intent(group_id="train-other", dag_id="other", run_id="r")
    crowded = place.settings.model_copy(update={"quota_leases": 1})
    narrow = type(place)(
        settings=crowded, store=place.store, ledger=place.ledger, engine=place.engine, driver=place.driver
    )
    monkeypatch.setattr("plimsoll.operators.provision_gpu.connect", lambda: narrow)
    with pytest.raises(AirflowFailException, match="quota"):
        ProvisionGpuOperator(task_id="provision", group="train").execute(TI)
    assert place.engine.requests == {}


def test_release_closes_before_it_ends(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    lease_id = provision.execute(TI)["lease_id"]
    ReleaseGpuOperator(task_id="release", group="train").execute(TI)
    assert place.engine.describe(lease_id).state is LeaseState.ENDED
    group = place.engine.requests[lease_id].group_id
    with pytest.raises(GroupClosedError):
        place.ledger.intent(group_id=group, dag_id=DAG_ID, run_id=RUN_ID)
    [charge] = place.ledger.charges(dag_id=DAG_ID, run_id=RUN_ID)
    assert charge.lease_id == lease_id
    assert charge.cost_method.startswith("estimated")


def test_release_finds_a_lease_that_the_ledger_forgot(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    lease_id = provision.execute(TI)["lease_id"]
    place.ledger.ended(group_id=place.engine.requests[lease_id].group_id, lease_id=lease_id, reason="a wrong belief")
    ReleaseGpuOperator(task_id="release", group="train").execute(TI)
    assert place.engine.describe(lease_id).state is LeaseState.ENDED


def test_release_twice_is_harmless(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    provision.execute(TI)
    for _ in range(2):
        ReleaseGpuOperator(task_id="release", group="train").execute(TI)
    assert len(place.ledger.charges(dag_id=DAG_ID, run_id=RUN_ID)) == 1


def test_waiting_defers_until_the_agent_beats(
    place: Installation, digits: Workload, planned: Plan, provision: ProvisionGpuOperator
) -> None:
    write_run(place, digits)
    lease_id = provision.execute(TI)["lease_id"]
    wait = WaitForLeaseOperator(task_id="wait", group="train")
    with pytest.raises(TaskDeferred) as deferred:
        wait.execute(TI)
    assert deferred.value.trigger.lease_id == lease_id
    place.store.put_json(f"leases/{lease_id}/heartbeat.json", {"sequence": 1, "state": "idle"})
    assert wait.execute(TI) == lease_id
