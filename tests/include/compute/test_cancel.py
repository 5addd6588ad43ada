"""Cancel means zero spend: in every state of a run, and proved by asking for all that is left."""

from datetime import UTC, datetime, timedelta

import pytest

from include.compute.cancel import cancel_run
from include.compute.cancel_mark import was_cancelled
from include.compute.driver import JobDriver
from include.compute.ec2.launch_log import LaunchLog
from include.compute.holdings import Holdings
from include.core.clock import FakeClock
from include.core.contracts.lease import LaunchRequest, LeaseState
from include.core.errors import GroupClosedError
from include.core.ids import group_id
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from tests.support.ec2_leftovers import Shop, client_of, tags_of
from tests.support.fake_engine import FakeEngine

GROUP = group_id(dag_id="d", run_id="r1", group="train")


@pytest.fixture
def holdings(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    migrate(url)
    store, ledger, engine = ObjectStore(f"file://{tmp_path / 'store'}"), Ledger(url), FakeEngine()
    driver = JobDriver(store=store, ledger=ledger, engine=engine, preemption_budget=8)
    return Holdings(store=store, ledger=ledger, engine=engine, driver=driver)


@pytest.fixture
def on_ec2(holdings, moto_endpoint):
    return Holdings(
        store=holdings.store,
        ledger=holdings.ledger,
        engine=holdings.engine,
        driver=holdings.driver,
        ec2=client_of(moto_endpoint),
    )


def launch(holdings, *, group=GROUP, run_id="r1", recorded=True):
    intent = holdings.ledger.intent(group_id=group, dag_id="d", run_id=run_id)
    request = LaunchRequest(lease_id=intent.lease_id, group_id=group, run_id=run_id, dag_id="d", expires_after_s=60)
    holdings.engine.launch(request)
    if recorded:
        holdings.ledger.launched(group_id=group, lease_id=intent.lease_id)
    return intent.lease_id


def cancel(holdings, **changes):
    options = {"mark_failed": lambda: "marked failed", "clock": FakeClock(current=datetime.now(UTC))} | changes
    return cancel_run(holdings, dag_id="d", run_id="r1", **options)


def test_a_live_lease_ends_is_settled_and_can_have_no_successor(holdings):
    lease_id = launch(holdings)
    report = cancel(holdings)
    assert report.proved
    assert list(report.ended) == [lease_id]
    assert holdings.engine.describe(lease_id).state is LeaseState.ENDED
    assert holdings.ledger.open_leases() == ()
    assert len(holdings.ledger.charges(dag_id="d", run_id="r1")) == 1
    with pytest.raises(GroupClosedError):
        holdings.ledger.intent(group_id=GROUP, dag_id="d", run_id="r1")


def test_a_second_cancellation_finds_nothing(holdings):
    launch(holdings)
    cancel(holdings)
    report = cancel(holdings)
    assert report.proved
    assert report.ended == {}
    assert report.lines()[-1] == "nothing of the run is left"


@pytest.mark.parametrize("launched", [True, False])
def test_between_intent_and_wait(holdings, launched):
    """The process died after the intent, before or after the launch: nobody recorded it."""
    if launched:
        launch(holdings, recorded=False)
    else:
        holdings.ledger.intent(group_id=GROUP, dag_id="d", run_id="r1")
    assert cancel(holdings).proved
    assert holdings.ledger.open_leases() == ()


def test_a_recovery_that_races_cannot_launch_any_more(holdings):
    """The recovery has its intent when the run is cancelled, and launches afterwards."""
    intent = holdings.ledger.intent(group_id=GROUP, dag_id="d", run_id="r1")
    assert cancel(holdings).proved
    with pytest.raises(GroupClosedError):
        holdings.engine.launch(
            LaunchRequest(lease_id=intent.lease_id, group_id=GROUP, run_id="r1", dag_id="d", expires_after_s=60)
        )


def test_a_lease_that_comes_up_while_the_run_is_cancelled_ends_too(holdings):
    late = LaunchRequest(lease_id=f"{GROUP}-g7", group_id=GROUP, run_id="r1", dag_id="d", expires_after_s=60)
    sleep, slept = FakeClock.sleep, []

    class Racing(FakeClock):
        def sleep(self, seconds):
            if not slept:
                holdings.engine.launch(late)
            slept.append(seconds)
            sleep(self, seconds)

    report = cancel(holdings, clock=Racing(current=datetime.now(UTC)))
    assert report.proved
    assert list(report.ended) == [late.lease_id]


def test_other_runs_and_the_shared_lease_stay(holdings):
    other = launch(holdings, group="train-other", run_id="r2")
    shared = launch(holdings, group="control-1", run_id="")
    assert cancel(holdings).proved
    assert {entry.lease_id for entry in holdings.ledger.open_leases()} == {other, shared}


def test_checkpoints_stay(holdings):
    launch(holdings)
    key = "runs/d/r1/checkpoints/train/step-1/manifest.json"
    holdings.store.put_json(key, {})
    assert cancel(holdings).proved
    assert holdings.store.exists(key)


def test_a_dead_airflow_is_told_and_stops_nothing(holdings):
    launch(holdings)
    assert cancel(holdings, mark_failed=lambda: "Airflow does not run").proved


def test_an_airflow_that_refuses_leaves_the_proof_open(holdings):
    lease_id = launch(holdings)

    def refuse():
        raise RuntimeError("403")

    report = cancel(holdings, mark_failed=refuse)
    assert not report.proved
    assert report.problems == ("the run cannot be marked failed: 403",)
    assert holdings.engine.describe(lease_id).state is LeaseState.ENDED


def test_what_does_not_end_is_named_and_nothing_is_proved(holdings, monkeypatch):
    stubborn = launch(holdings)
    monkeypatch.setattr(FakeEngine, "stop", lambda self, lease_id, *, reason: "hangs")
    report = cancel(holdings, within_s=10.0)
    assert not report.proved
    assert report.left == (f"lease {stubborn} (running)",)
    assert report.lines()[-1] == "it is not proved that nothing is left"
    assert report.to_json()["left"] == [f"lease {stubborn} (running)"]


def test_another_witness_counts_as_much_as_the_engine(holdings):
    report = cancel(holdings, also_alive=lambda: [f"{GROUP}-g3", "train-other-g1"], within_s=10.0)
    assert report.left == (f"lease {GROUP}-g3 (its process lives)",)


def test_a_launch_whose_answer_is_lost_keeps_the_proof_open_until_ec2_would_show_it(holdings):
    lease_id = launch(holdings)
    clock = FakeClock(current=datetime.now(UTC))
    log = LaunchLog(store=holdings.store, lease_id=lease_id, installation=holdings.installation, clock=clock)
    request = LaunchRequest(lease_id=lease_id, group_id=GROUP, run_id="r1", dag_id="d", expires_after_s=60)
    log.begin(number=1, parameters={}, request=request)
    report = cancel(holdings, clock=clock, within_s=10.0)
    assert report.left == (f"lease {lease_id} (a launch without an answer)",)
    assert cancel(holdings, clock=clock).proved


def test_a_cleared_run_may_go_on_and_the_cancelled_one_may_not(holdings):
    began = datetime.now(UTC)
    names = {"dag_id": "d", "run_id": "r1"}
    assert not was_cancelled(holdings.ledger, **names, since=began)
    cancel(holdings)
    assert was_cancelled(holdings.ledger, **names, since=began)
    assert was_cancelled(holdings.ledger, **names, since=None)
    assert not was_cancelled(holdings.ledger, **names, since=datetime.now(UTC) + timedelta(seconds=1))


@pytest.mark.integration
def test_everything_on_ec2_goes_also_what_neither_ledger_nor_engine_knows(on_ec2):
    shop = Shop(on_ec2.ec2)
    mine = tags_of(f"{GROUP}-g1", installation=on_ec2.installation)
    shop.instance(mine)
    shop.snapshot(mine, volume=shop.volume(mine))
    shop.address(mine)
    shop.interface(mine)
    shop.launch_template(mine, name=f"cancelled-{on_ec2.installation}")
    kept = shop.instance(tags_of("train-x-g1", installation=on_ec2.installation, run_id="r2"))
    report = cancel(on_ec2)
    assert report.proved
    assert len(report.removed) == 6
    left = [item.resource_id for item in on_ec2.resources() if item.lives]
    assert left == [kept]


@pytest.mark.integration
def test_what_ec2_refuses_to_end_is_left_with_the_reason(on_ec2):
    shop = Shop(on_ec2.ec2)
    instance = shop.instance(tags_of(f"{GROUP}-g1", installation=on_ec2.installation))
    shop.ec2.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": True})
    report = cancel(on_ec2, within_s=3.0)
    assert any(instance in left for left in report.left)
    assert "OperationNotPermitted" in report.problems[0]
    shop.ec2.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": False})
    assert cancel(on_ec2).proved


def test_an_ec2_that_does_not_answer_proves_nothing(holdings):
    class Deaf:
        def can_paginate(self, operation):
            return False

        def __getattr__(self, name):
            raise ConnectionError("no route")

    launch(holdings)
    deaf = Holdings(
        store=holdings.store, ledger=holdings.ledger, engine=holdings.engine, driver=holdings.driver, ec2=Deaf()
    )
    report = cancel(deaf, within_s=3.0)
    assert not report.proved
    assert "no instance can be listed: no route" in report.problems[0]
    assert holdings.ledger.open_leases() == ()
