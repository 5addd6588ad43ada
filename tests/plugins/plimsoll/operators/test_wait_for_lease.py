"""Waiting for capacity, then for the machine: never for ever, never for a machine that is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from include.config.workload import Workload
from include.core.contracts.lease import LaunchRequest, Lease, LeaseState
from include.core.contracts.plan import Plan
from include.core.errors import LaunchRefusedError, NoCapacityError, QueuedError
from include.core.ids import group_id
from plimsoll.hooks.installation import Installation
from plimsoll.operators.provision_gpu import ProvisionGpuOperator, ReleaseGpuOperator
from plimsoll.operators.wait_for_lease import WaitForLeaseOperator
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

GROUP = group_id(dag_id=DAG_ID, run_id=RUN_ID, group="train")
INSTANCE = "i-0123456789abcdef0"
ASK_AGAIN = {"status": "ask_again"}


@pytest.fixture
def ready(place: Installation, digits: Workload, planned: Plan) -> Installation:
    write_run(place, digits)
    return place


@pytest.fixture
def ti() -> FakeTaskInstance:
    return FakeTaskInstance()


def provision(ti: FakeTaskInstance, **kwargs: Any) -> dict[str, Any]:
    return ProvisionGpuOperator(task_id="provision", group="train", **kwargs).execute(context(ti))


def wait(**kwargs: Any) -> WaitForLeaseOperator:
    return WaitForLeaseOperator(task_id="wait_ready", group="train", **kwargs)


def deferral(move: Callable[[], Any]) -> Any:
    """The trigger that the task waits for."""
    with pytest.raises(TaskDeferred) as caught:
        move()
    assert caught.value.method_name == "resume"
    return caught.value.trigger


def beat(place: Installation, lease_id: str) -> None:
    place.store.put_json(f"leases/{lease_id}/heartbeat.json", {"sequence": 1, "state": "idle"})


def without_capacity(place: Installation, *, times: int = 1000, error: Exception | None = None) -> list[str]:
    """The next launches meet no capacity, as on EC2."""
    launch, tried = place.engine.launch, []

    def refuse(request: LaunchRequest) -> Lease:
        tried.append(request.lease_id)
        if len(tried) <= times:
            raise error or NoCapacityError("g5.xlarge spot in us-east-1a: none", retry_after_s=30.0)
        return launch(request)

    place.engine.launch = refuse
    return tried


def on_ec2(place: Installation, *, known: bool = True) -> None:
    """Launches say which instances they made, where EC2 shows them already."""
    launch = place.engine.launch

    def rent(request: LaunchRequest) -> Lease:
        lease = launch(request)
        details = {"engine": "ec2", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge"}
        details["instance_ids"] = INSTANCE if known else ""
        return Lease(lease_id=lease.lease_id, group_id=lease.group_id, state=lease.state, details=details)

    place.engine.launch = rent


def test_a_setup_without_capacity_succeeds_and_says_what_was_tried(ready: Installation, ti: FakeTaskInstance) -> None:
    without_capacity(ready)
    result = provision(ti)
    assert (result["state"], result["group_id"], result["position"]) == ("waiting", GROUP, None)
    assert "g5.xlarge spot in us-east-1a" in result["reason"]
    assert ti.pushed["capacity"]["state"] == "waiting"
    assert ready.engine.requests == {}


def test_the_wait_asks_again_until_there_is_capacity(ready: Installation, ti: FakeTaskInstance) -> None:
    without_capacity(ready, times=3)
    provision(ti)
    operator = wait()
    first = deferral(lambda: operator.execute(context(ti)))
    assert isinstance(first, CapacityTrigger)
    assert first.retry_after_s == 30.0
    assert "g5.xlarge" in first.reason
    assert isinstance(deferral(lambda: operator.resume(context(ti), ASK_AGAIN)), CapacityTrigger)
    second = deferral(lambda: operator.resume(context(ti), ASK_AGAIN))
    assert isinstance(second, LeaseReadyTrigger)
    assert list(ready.engine.requests) == [second.lease_id]
    beat(ready, second.lease_id)
    assert operator.resume(context(ti), {"status": "idle", "lease_id": second.lease_id}) == second.lease_id
    assert ti.pushed["capacity"] == {"state": "launched", "lease_id": second.lease_id}


def test_the_place_in_the_queue_is_shown(
    ready: Installation, ti: FakeTaskInstance, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = QueuedError("team vision holds 8 of 8 GPUs", position=3, retry_after_s=20.0)

    def queued(**_: Any) -> Any:
        raise error

    monkeypatch.setattr(ready.ledger, "intent", queued)
    result = provision(ti)
    assert (result["state"], result["position"]) == ("waiting", 3)
    assert deferral(lambda: wait().execute(context(ti))).retry_after_s == 20.0
    assert "place 3 in the queue of its team; team vision holds 8 of 8 GPUs" in caplog.text


def test_a_run_that_ends_while_it_waits_gets_no_lease_any_more(ready: Installation, ti: FakeTaskInstance) -> None:
    without_capacity(ready, times=1)
    provision(ti)
    ReleaseGpuOperator(task_id="release", group="train").execute(context(ti))
    with pytest.raises(AirflowFailException, match="clear its provision task"):
        wait().resume(context(ti), ASK_AGAIN)
    assert ready.engine.requests == {}
    assert ready.ledger.open_leases() == ()


def test_a_group_that_was_released_is_reopened_by_its_setup_although_there_is_no_capacity(
    ready: Installation, ti: FakeTaskInstance
) -> None:
    provision(ti)
    ReleaseGpuOperator(task_id="release", group="train").execute(context(ti))
    without_capacity(ready, times=1)
    assert provision(ti)["state"] == "waiting"
    assert isinstance(deferral(lambda: wait().resume(context(ti), ASK_AGAIN)), LeaseReadyTrigger)


def test_a_refusal_for_good_fails_without_a_lease_left_open(ready: Installation, ti: FakeTaskInstance) -> None:
    without_capacity(ready, error=LaunchRefusedError("vCPU quota is 0"))
    with pytest.raises(AirflowFailException, match="vCPU quota is 0"):
        provision(ti)
    assert ready.ledger.open_leases() == ()


def test_the_time_of_a_machine_counts_from_its_launch(ready: Installation, ti: FakeTaskInstance) -> None:
    provision(ti)
    operator = wait(timeout=timedelta(seconds=100))
    first = deferral(lambda: operator.execute(context(ti)))
    again = deferral(lambda: operator.execute(context(ti)))
    assert first.until == again.until
    [launched] = ready.ledger.events(kind="launched")
    assert ready.ledger.lease_record(first.lease_id).launched_at == launched.at
    assert (first.boot_s, first.instances) == (100.0, None)


def test_a_machine_that_never_comes_up_is_ended_and_replaced_a_few_times(
    ready: Installation, ti: FakeTaskInstance
) -> None:
    first = provision(ti)["lease_id"]
    operator = wait(timeout=timedelta(0), launches=3)
    with pytest.raises(AirflowFailException, match="3 machines in a row did not come up"):
        operator.resume(context(ti), {"status": "silent", "lease_id": first})
    assert len(ready.engine.requests) == 3
    assert all(ready.engine.describe(lease).state is LeaseState.ENDED for lease in ready.engine.requests)
    assert ready.ledger.open_leases() == ()
    kinds = [event.body["kind"] for event in ready.ledger.events(kind="alert")]
    assert kinds == ["interruption"] * 3


def test_a_cleared_setup_gives_machines_another_chance(ready: Installation, ti: FakeTaskInstance) -> None:
    provision(ti)
    with pytest.raises(AirflowFailException):
        wait(timeout=timedelta(0), launches=1).execute(context(ti))
    ReleaseGpuOperator(task_id="release", group="train").execute(context(ti))
    provision(ti)
    assert isinstance(deferral(lambda: wait(launches=1).execute(context(ti))), LeaseReadyTrigger)


def test_a_machine_that_is_gone_while_it_comes_up_is_replaced(ready: Installation, ti: FakeTaskInstance) -> None:
    on_ec2(ready)
    first = provision(ti)["lease_id"]
    operator = wait()
    trigger = deferral(lambda: operator.execute(context(ti)))
    assert trigger.instances == {"region": "us-east-1", "ids": [INSTANCE]}
    gone = {"status": "gone", "lease_id": first, "why": f"{INSTANCE} is terminated"}
    second = deferral(lambda: operator.resume(context(ti), gone))
    assert second.lease_id != first
    assert ready.engine.describe(first).state is LeaseState.ENDED
    # The event is told twice: the lease that took the place of the first one stays.
    assert deferral(lambda: operator.resume(context(ti), gone)).lease_id == second.lease_id
    assert len(ready.engine.requests) == 2


def test_a_machine_that_came_up_at_the_last_moment_stays(ready: Installation, ti: FakeTaskInstance) -> None:
    lease = provision(ti)["lease_id"]
    beat(ready, lease)
    event = {"status": "gone", "lease_id": lease, "why": "a wrong belief"}
    assert wait(timeout=timedelta(0)).resume(context(ti), event) == lease
    assert ready.engine.describe(lease).state is LeaseState.RUNNING


def test_a_retry_after_the_process_was_killed_waits_for_the_same_machine(
    ready: Installation, ti: FakeTaskInstance
) -> None:
    """As after kill -9 of a worker: a new process, a new operator, the same state."""
    lease = provision(ti)["lease_id"]
    assert deferral(lambda: wait().execute(context(ti))).lease_id == lease
    assert deferral(lambda: wait().execute(context(FakeTaskInstance()))).lease_id == lease
    assert len(ready.engine.requests) == 1


def test_a_setup_that_fails_for_good_leaves_no_lease(
    ready: Installation, ti: FakeTaskInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost_answer(**_: Any) -> bool:
        raise ConnectionError("the ledger went away after the launch")

    with monkeypatch.context() as broken:
        broken.setattr(ready.ledger, "launched", lost_answer)
        with pytest.raises(ConnectionError):
            provision(ti)
    [lease] = ready.engine.requests
    assert ready.engine.describe(lease).state is LeaseState.RUNNING, "a retry comes and finds it"
    ti.try_number = 3
    with monkeypatch.context() as broken:
        broken.setattr(ready.ledger, "launched", lost_answer)
        with pytest.raises(ConnectionError):
            provision(ti)
    assert ready.engine.describe(lease).state is LeaseState.ENDED, "nobody comes any more"


def test_a_machine_whose_instance_is_not_shown_yet_has_its_time_all_the_same(
    ready: Installation, ti: FakeTaskInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_ec2(ready, known=False)
    provision(ti)
    assert deferral(lambda: wait().execute(context(ti))).instances is None
    describe = ready.engine.describe
    shown = {"instance_ids": INSTANCE, "region": "us-east-1"}
    monkeypatch.setattr(ready.engine, "describe", lambda lease: replace(describe(lease), details=shown))
    assert deferral(lambda: wait().execute(context(ti))).instances == {"region": "us-east-1", "ids": [INSTANCE]}


def test_the_instance_is_linked_and_in_xcom(ready: Installation, ti: FakeTaskInstance) -> None:
    on_ec2(ready)
    lease = provision(ti)["lease_id"]
    operator = wait()
    deferral(lambda: operator.execute(context(ti)))
    assert ti.pushed["capacity"] == {
        "state": "launched",
        "lease_id": lease,
        "region": "us-east-1",
        "ids": [INSTANCE],
        "instance_type": "g5.xlarge",
        "zone": "us-east-1a",
        "purchase": "local",
    }
    links = {link.name: link.get_link(operator, ti_key=ti) for link in operator.operator_extra_links}
    assert links["EC2 instance"].endswith(f"#InstanceDetails:instanceId={INSTANCE}")
