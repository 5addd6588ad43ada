"""Each beat may move the end of a lease on, and tells the machine that all is well as long as it is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from obstore.exceptions import GenericError

from include.compute.accounts import LeaseAccounts
from include.compute.alive_file import AliveFile
from include.compute.lease_beat import LeaseBeat
from include.compute.lifeline import Lifeline
from include.compute.pace import Pace
from include.compute.store_link import StoreLink
from include.core.clock import FakeClock
from include.core.contracts.lease import LaunchRequest
from include.core.store import ObjectStore

SPEC = LaunchRequest(lease_id="l-g1", group_id="l", run_id="r", dag_id="d", expires_after_s=100.0)
KEY = "leases/l-g1/heartbeat.json"


class Bench:
    def __init__(self, store: ObjectStore, alive: Path, *, extends: bool) -> None:
        self.clock, self.store, self.alive = FakeClock(), store, alive
        self.lifeline = Lifeline(clock=self.clock, expires_after_s=100.0, idle_s=1e9, extends=extends)
        self.beat = LeaseBeat(
            key=KEY,
            link=StoreLink(store, self.clock),
            accounts=LeaseAccounts.of(SPEC, mode="estimate", shared_machine=True),
            lifeline=self.lifeline,
            pace=Pace(unreachable_s=30.0),
            clock=self.clock,
            alive=AliveFile(str(alive)),
        )

    def after(self, seconds: float) -> float | None:
        """Beat after so long; what the newest beat in the store says of the end, from the start of the clock."""
        self.clock.sleep(seconds)
        self.beat.beat_if_due("idle")
        end = (self.store.get_json(KEY) or {}).get("expires_at")
        return None if end is None else end - FakeClock().now().timestamp()

    def touched(self) -> bool:
        there = self.alive.exists()
        self.alive.unlink(missing_ok=True)
        return there


@pytest.fixture
def bench(file_store: ObjectStore, tmp_path: Path) -> Bench:
    return Bench(file_store, tmp_path / "alive", extends=True)


def test_the_end_is_announced_and_moves_on(bench):
    assert bench.after(1.0) == 100.0
    assert bench.after(48.0) == 100.0
    assert bench.after(2.0) == 151.0
    bench.clock.sleep(99.0)
    assert bench.lifeline.reason_to_leave(stopped=False) is None
    assert bench.touched()


def test_the_end_of_a_lease_on_this_machine_is_told_by_its_launch(file_store, tmp_path):
    bench = Bench(file_store, tmp_path / "alive", extends=False)
    assert bench.after(60.0) is None
    bench.clock.sleep(41.0)
    assert bench.lifeline.reason_to_leave(stopped=False) == "expired"


def test_documents_follow_the_wall_clock_and_the_end_does_not(bench):
    bench.after(1.0)
    bench.clock.current += timedelta(days=1)
    assert bench.after(1.0) == 100.0 + 86_400
    bench.clock.sleep(97.0)
    assert bench.lifeline.reason_to_leave(stopped=False) is None
    bench.clock.sleep(2.0)
    assert bench.lifeline.reason_to_leave(stopped=False) == "expired"


def test_a_store_that_is_away_too_long_lets_the_machine_end(bench, monkeypatch):
    def away(*_: object) -> None:
        raise GenericError("error sending request")

    bench.after(60.0)
    assert bench.touched()
    monkeypatch.setattr(ObjectStore, "put_json", away)
    bench.after(10.0)
    assert bench.touched()  # an outage of seconds is none of the machine's business
    bench.after(25.0)
    assert bench.touched()
    bench.after(10.0)
    assert not bench.touched()


def test_a_file_that_cannot_be_touched_is_told_of_once(tmp_path, caplog):
    alive = AliveFile(str(tmp_path / "no" / "folder"))
    alive.touch()
    alive.touch()
    assert len(caplog.records) == 1
    AliveFile("").touch()
