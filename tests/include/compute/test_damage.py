"""One lease with a damaged document or tag among others: it is told and kept, and everything else is ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.compute.damage import UnreadableLeasesError, moment
from include.compute.driver import JobDriver
from include.compute.ec2 import tags as tag
from include.compute.engines.local import LocalEngine
from include.compute.engines.router import EngineRouter
from include.compute.holdings import Holdings
from include.compute.reap_plan import ReapLimits
from include.compute.reap_report import ReapReport
from include.compute.reaper import reap
from include.core.errors import UserError
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from tests.support.ec2_rig import AMI, DoubleClients, Rig

BAD = "train-xyz-g2"
FOLDER = f"leases/{BAD}"
SPEC = '{"lease_id":"train-xyz-g2","group_id":"train-xyz","run_id":"run-2","dag_id":"digits","expires_after_s":60}'
DOCUMENTS = [
    ("heartbeat.json", b'{"seq'),
    ("heartbeat.json", b"[1]"),
    ("heartbeat.json", b"\xff\xfe"),
    ("heartbeat.json", b'{"sequence":1,"at":"x","state":"idle","expires_at":"tomorrow"}'),
    ("heartbeat.json", b'{"sequence":1,"state":"idle","expires_at":NaN}'),
    ("spec.json", b"{"),
    ("spec.json", b'{"a":1}'),
    ("spec.json", b"7"),
    ("owner.json", b"[]"),
    ("launch/001.json", b"{"),
    ("launch/001.answer.json", b"{}"),
]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(folder=tmp_path)


@pytest.fixture
def holdings(rig: Rig, tmp_path: Path) -> Holdings:
    """Both engines, as an installation has them."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    migrate(url)
    ledger = Ledger(url, clock=rig.clock)
    engine = EngineRouter(rig.store, {"local": LocalEngine(rig.store, rig.settings), "ec2": rig.engine})
    driver = JobDriver(store=rig.store, ledger=ledger, engine=engine, preemption_budget=8, clock=rig.clock)
    return Holdings(
        store=rig.store, ledger=ledger, engine=engine, driver=driver, ec2=DoubleClients(rig.double).reading()
    )


def rent(holdings: Holdings, rig: Rig, named: str, *, run: str, expires_in: float, **over: str) -> str:
    """An instance that only its tags know."""
    names = {
        tag.INSTALLATION: holdings.installation,
        tag.LEASE: named,
        tag.GROUP: named.rpartition("-g")[0],
        tag.DAG: "digits",
        tag.RUN: run,
        tag.EXPIRES_AT: str(int(rig.clock.now().timestamp() + expires_in)),
        **{f"plimsoll:{key.replace('_', '-')}": value for key, value in over.items()},
    }
    listed = [{"Key": key, "Value": value} for key, value in names.items()]
    made = holdings.ec2.run_instances(
        ImageId=AMI,
        InstanceType="g5.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": listed}],
    )
    return str(made["Instances"][0]["InstanceId"])


def one_pass(holdings: Holdings, rig: Rig, state: str = "running", **limits: Any) -> ReapReport:
    return reap(
        holdings,
        run_state=lambda dag, run: state,
        limits=ReapLimits(**limits),
        clock=rig.clock,
    )


def living(rig: Rig) -> set[str]:
    return {each.instance_id for each in rig.living()}


@pytest.mark.parametrize(("name", "content"), DOCUMENTS)
def test_a_damaged_document_of_one_lease_stops_the_end_of_no_other(
    holdings: Holdings, rig: Rig, name: str, content: bytes
) -> None:
    rent(holdings, rig, "train-abc-g1", run="run-1", expires_in=-99)
    kept = rent(holdings, rig, BAD, run="run-2", expires_in=9999)
    rig.store.put(f"{FOLDER}/{name}", content)
    # Even where its run is over: what cannot be read is not ended.
    report = one_pass(holdings, rig, "failed")
    assert living(rig) == {kept}
    assert report.ended == {"train-abc-g1": "expired"}
    assert [verdict.lease.lease_id for verdict in report.keep if verdict.suspect] == [BAD]
    (problem,) = report.problems
    assert problem.startswith(f"lease {BAD} cannot be read: ")
    # Where a value makes no sense to its reader, the folder is all that is known.
    assert f"{FOLDER}/{name}" in problem or f"below {FOLDER}: Invalid isoformat string" in problem
    assert len(problem.splitlines()) == 1
    assert report.failed


@pytest.mark.parametrize(("name", "content"), DOCUMENTS)
def test_what_cannot_be_read_ends_when_its_own_tags_say_so(
    holdings: Holdings, rig: Rig, name: str, content: bytes
) -> None:
    rent(holdings, rig, BAD, run="run-2", expires_in=-1)
    rig.store.put(f"{FOLDER}/{name}", content)
    assert one_pass(holdings, rig).ended == {BAD: "expired by its tags"}
    assert living(rig) == set()
    assert rig.store.exists(f"{FOLDER}/stop.json")


def test_a_tag_that_is_no_key_stops_the_end_of_no_other(holdings: Holdings, rig: Rig) -> None:
    rent(holdings, rig, "train-abc-g1", run="run-1", expires_in=-99)
    kept = rent(holdings, rig, BAD, run="run-2", expires_in=500, lease="a b/../c")
    report = one_pass(holdings, rig)
    assert living(rig) == {kept}
    assert "a b/../c" in report.problems[0]
    rig.clock.sleep(501)
    assert one_pass(holdings, rig).ended == {"a b/../c": "expired by its tags"}
    assert living(rig) == set()


@pytest.mark.parametrize("expiry", ["²", "soon", "nan", "inf", "9" * 200])
def test_an_expiry_that_is_no_moment_is_none(holdings: Holdings, rig: Rig, expiry: str) -> None:
    rent(holdings, rig, "train-abc-g1", run="run-1", expires_in=-99)
    kept = rent(holdings, rig, BAD, run="run-2", expires_in=0, expires_at=expiry)
    assert one_pass(holdings, rig).ended == {"train-abc-g1": "expired"}
    assert living(rig) == {kept}


def test_a_launch_number_that_is_none_is_none(holdings: Holdings, rig: Rig) -> None:
    rent(holdings, rig, BAD, run="run-2", expires_in=-1, launch="²")
    assert one_pass(holdings, rig).ended == {BAD: "expired"}


@pytest.mark.parametrize("found", [True, "1.0 h", "", None, [], float("inf"), 10**400])
def test_no_moment(found: object) -> None:
    assert moment(found) is None


def test_a_release_ends_what_can_be_read_and_leaves_the_rest(rig: Rig) -> None:
    rig.engine.launch(rig.request("train-abc-g1"))
    rig.store.put("leases/train-abc-g2/spec.json", b"{")
    rig.store.put(f"{FOLDER}/spec.json", b"{")
    with pytest.raises(UnreadableLeasesError, match=f"{BAD} cannot be read.*spec.json is no JSON"):
        rig.engine.find()
    report = rig.engine.release("train-abc")
    assert rig.living() == []
    assert report.left == ("train-abc-g2",)
    assert "train-abc-g1" in report.ended


def test_the_local_engine_ends_what_can_be_read(rig: Rig) -> None:
    rig.store.put(f"{FOLDER}/spec.json", b"{")
    rig.store.put("leases/work-a-g1/spec.json", SPEC.replace(BAD, "work-a-g1").encode())
    report = LocalEngine(rig.store, rig.settings).stop_all(reason="all")
    assert report.ended == {"work-a-g1": "never started"}
    assert report.left == (BAD,)


def test_a_lease_on_an_engine_that_is_not_looked_at_is_told(holdings: Holdings, rig: Rig) -> None:
    rig.engine.launch(rig.request(BAD))
    blind = EngineRouter(rig.store, {"local": LocalEngine(rig.store, rig.settings)})
    driver = JobDriver(store=rig.store, ledger=holdings.ledger, engine=blind, preemption_budget=8)
    place = Holdings(store=rig.store, ledger=holdings.ledger, engine=blind, driver=driver)
    report = one_pass(place, rig, "failed")
    assert "set PLIMSOLL_ENGINE=ec2" in report.failed
    assert not report.ended
    with pytest.raises(UserError, match="set PLIMSOLL_ENGINE=ec2"):
        blind.stop(BAD, reason="cancelled")
    rig.engine.stop(BAD, reason="over")
    rig.wait(60)
    assert not one_pass(place, rig, "failed").failed
