"""One pass over engine, tags, ledger and heartbeats: what it ends, what it settles, and what it does half blind."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from include.compute.driver import JobDriver
from include.compute.ec2.leftovers import UnlistedError, take_inventory
from include.compute.ec2.resource import Kind
from include.compute.holdings import Holdings
from include.compute.reap_plan import LeaseFacts, ReapLimits, Verdict
from include.compute.reap_report import ReapReport
from include.compute.reaper import reap
from include.core.clock import FakeClock
from include.core.contracts.lease import LaunchRequest, LeaseState
from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from tests.support.ec2_leftovers import Shop, client_of, tags_of
from tests.support.fake_engine import FakeEngine

LIMITS = ReapLimits()


@pytest.fixture
def holdings(tmp_path, moto_endpoint):
    """An installation whose engine knows nothing of EC2: its tags alone tell."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    migrate(url)
    store, ledger, engine = ObjectStore(f"file://{tmp_path / 'store'}"), Ledger(url), FakeEngine()
    driver = JobDriver(store=store, ledger=ledger, engine=engine, preemption_budget=8)
    return Holdings(store=store, ledger=ledger, engine=engine, driver=driver, ec2=client_of(moto_endpoint))


@pytest.fixture
def shop(holdings):
    return Shop(holdings.ec2)


def tags(holdings, lease_id="train-a-g1", **changes):
    return tags_of(lease_id, installation=holdings.installation, **changes)


def left(holdings, *, but=("deleted_terminating",)):
    found = take_inventory(holdings.ec2, installation=holdings.installation)
    return sorted(item.resource_id for item in found if item.state not in but)


def lease(holdings, *, group="train-a", run_id="r1"):
    intent = holdings.ledger.intent(group_id=group, dag_id="d", run_id=run_id)
    request = LaunchRequest(lease_id=intent.lease_id, group_id=group, run_id=run_id, dag_id="d", expires_after_s=60)
    holdings.engine.launch(request)
    holdings.ledger.launched(group_id=group, lease_id=intent.lease_id)
    return intent.lease_id


def run(holdings, state="failed", **changes):
    options = {"run_state": lambda dag, run: state, "limits": LIMITS} | changes
    return reap(holdings, **options)


@pytest.mark.integration
class TestOnEc2:
    def test_a_lease_that_the_ledger_lost_ends_with_all_it_has(self, holdings, shop):
        shop.one_of_each(tags(holdings), name=f"t-{uuid.uuid4().hex}")
        report = run(holdings)
        assert not report.failed
        assert left(holdings) == []
        assert report.ended == {"train-a-g1": "its run is failed"}
        # Root volume and interface of the instance go with it.
        assert {word.rsplit(" ", 2)[0] for word in report.removed} >= {kind.value for kind in (Kind.VOLUME,)}
        assert holdings.store.exists("leases/train-a-g1/stop.json")
        assert holdings.ledger.events(kind="alert")[0].body["kind"] == "reaper"
        assert run(holdings).ended == {}

    def test_a_lease_that_the_ledger_has_is_settled_too(self, holdings, shop):
        lease_id = lease(holdings)
        shop.instance(tags(holdings, lease_id))
        assert run(holdings).ended == {lease_id: "its run is failed"}
        assert holdings.ledger.open_leases() == ()
        assert len(holdings.ledger.charges(dag_id="d", run_id="r1")) == 1
        assert left(holdings) == []

    def test_a_live_run_and_everything_untagged_stay(self, holdings, shop):
        mine = shop.instance(tags(holdings))
        other = shop.instance({"Name": "somebody's"})
        assert run(holdings, "running").ended == {}
        run(holdings, "failed")
        states = shop.ec2.describe_instances(InstanceIds=[mine, other])["Reservations"]
        found = {item["InstanceId"]: item["State"]["Name"] for part in states for item in part["Instances"]}
        assert found == {mine: "terminated", other: "running"}

    def test_an_extended_heartbeat_keeps_what_its_tag_has_expired(self, holdings, shop):
        lease_id = lease(holdings)
        clock = FakeClock(current=datetime.now(UTC))
        now = clock.now().timestamp()
        shop.instance(tags(holdings, lease_id, expires_at=now - 10))
        holdings.store.put_json(f"leases/{lease_id}/heartbeat.json", {"state": "busy", "expires_at": now + 50})
        assert run(holdings, "running", clock=clock).ended == {}
        clock.current += timedelta(seconds=60)
        assert run(holdings, "running", clock=clock).ended == {lease_id: "expired"}

    def test_a_silent_agent_is_reported(self, holdings, shop):
        lease_id = lease(holdings)
        shop.instance(tags(holdings, lease_id))
        holdings.store.put_json(f"leases/{lease_id}/heartbeat.json", {"state": "busy"})
        later = FakeClock(current=datetime.now(UTC) + timedelta(hours=1))
        report = run(holdings, "running", clock=later)
        assert "silent for" in report.to_json()["suspect"][lease_id]
        assert not report.ended

    def test_without_a_store_what_has_expired_ends_and_nothing_else(self, holdings, shop, monkeypatch):
        expired = shop.instance(tags(holdings, "train-a-g1", expires_at=1.0))
        old, new = (shop.instance(tags(holdings, f"train-b-g{number}")) for number in (1, 2))
        monkeypatch.setattr(Holdings, "store_answers", lambda self: "the store cannot be read: gone")
        monkeypatch.setattr(FakeEngine, "find", lambda self, **_: pytest.fail("asks the store"))
        report = run(holdings)
        assert report.failed == "the store cannot be read: gone"
        assert report.ended == {"train-a-g1": "expired"}
        assert set(left(holdings)) >= {old, new}
        assert expired not in left(holdings)

    def test_without_a_ledger_what_has_expired_ends_and_nothing_else(self, holdings, shop, monkeypatch):
        shop.instance(tags(holdings, "train-a-g1", expires_at=1.0))
        shop.instance(tags(holdings, "train-b-g1"))

        def gone(self):
            raise OSError("no database")

        monkeypatch.setattr(Ledger, "open_leases", gone)
        report = run(holdings)
        assert "no database" in report.failed
        assert report.ended == {"train-a-g1": "expired"}

    def test_an_error_with_one_resource_holds_up_no_other_and_fails_the_pass(self, holdings, shop):
        protected = shop.instance(tags(holdings))
        shop.instance(tags(holdings, "train-b-g1"))
        shop.ec2.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": True})
        report = run(holdings)
        assert "OperationNotPermitted" in report.failed
        assert protected in report.failed
        instances = {name for name in left(holdings) if name.startswith("i-")}
        assert instances == {protected}
        shop.ec2.modify_instance_attribute(InstanceId=protected, DisableApiTermination={"Value": False})
        assert not run(holdings).failed

    def test_a_dry_run_names_what_a_pass_would_do(self, holdings, shop):
        shop.one_of_each(tags(holdings), name=f"t-{uuid.uuid4().hex}")
        before = left(holdings)
        report = run(holdings, dry_run=True)
        assert left(holdings) == before
        assert "would end" in report.table()
        assert report.to_json()["removed"] == []
        assert holdings.ledger.events() == ()


class Deaf:
    """A client that cannot reach AWS."""

    def can_paginate(self, operation):
        return False

    def __getattr__(self, name):
        raise ConnectionError("no route")


def with_client(holdings, client):
    return Holdings(
        store=holdings.store, ledger=holdings.ledger, engine=holdings.engine, driver=holdings.driver, ec2=client
    )


def test_an_aws_that_cannot_be_asked_fails_the_pass_before_it_does_anything(holdings):
    lease(holdings)
    with pytest.raises(UnlistedError, match="no instance can be listed: no route"):
        run(with_client(holdings, Deaf()))
    assert len(holdings.ledger.open_leases()) == 1


def test_a_store_that_is_gone_is_an_error_where_nothing_else_can_tell(holdings, monkeypatch):
    monkeypatch.setattr(Holdings, "store_answers", lambda self: "gone")
    with pytest.raises(StoreError, match="gone"):
        run(with_client(holdings, None))


def test_a_pass_beyond_its_cap_does_nothing_and_says_so(holdings):
    place = with_client(holdings, None)
    leases = [lease(place, group=f"train-{number}") for number in range(3)]
    report = run(place, limits=ReapLimits(cap=2))
    assert "limit 2" in report.failed
    assert report.to_json()["ended"] == {}
    assert "not ended" in report.table()
    assert all(place.engine.describe(lease_id).state is LeaseState.RUNNING for lease_id in leases)
    assert not run(place, limits=ReapLimits(cap=2), dry_run=True).failed


def test_a_run_is_asked_for_once_and_never_where_only_expiry_counts(holdings):
    place = with_client(holdings, None)
    for number in range(2):
        lease(place, group=f"train-{number}")
    asked = []
    run(place, run_state=lambda *names: asked.append(names))
    assert asked == [("d", "r1")]
    run(place, run_state=lambda *names: pytest.fail("asked"), limits=ReapLimits(expired_only=True))


def test_the_table_shows_who_holds_what(holdings):
    place = with_client(holdings, None)
    lease_id = lease(place)
    assert run(place, "running").table().splitlines()[1].split() == [
        "kept",
        lease_id,
        "d/r1",
        *["its", "run", "is", "running"],
        "-",
    ]
    run(place)
    assert run(place).table() == "nothing is rented"


def test_the_report_is_small_whatever_was_found():
    def verdict(number, **fields):
        return Verdict(lease=LeaseFacts(lease_id=f"train-{number:012d}-g{number}"), why="its run is failed", **fields)

    report = ReapReport(
        at="2026-01-01T00:00:00+00:00",
        dry_run=False,
        end=tuple(verdict(number, whole=True) for number in range(900)),
        keep=tuple(verdict(number, suspect=True) for number in range(900)),
        removed=tuple(f"instance i-{number:017d} (running)" for number in range(900)),
        problems=tuple("An error occurred (OperationNotPermitted) " * 20 for _ in range(900)),
    )
    found = report.to_json()
    assert len(json.dumps(found)) < 10_000
    assert found["counts"] == {"ended": 900, "removed": 900, "suspect": 900, "kept": 900, "problems": 900}
    assert "and 880 more are kept" in report.table()
