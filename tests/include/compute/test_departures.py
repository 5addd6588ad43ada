"""What makes an agent leave, and in which order."""

from __future__ import annotations

from decimal import Decimal

import pytest
from obstore.exceptions import GenericError

from include.compute.departures import Departure, Departures
from include.compute.imds_client import MetadataClient, Notice, NoticeWatch
from include.compute.lease_keys import LeaseKeys
from include.compute.lifeline import Lifeline
from include.compute.pace import Pace
from include.compute.spend_limit import SpendLimit
from include.compute.store_link import StoreLink
from include.core.clock import FakeClock
from include.core.store import ObjectStore

KEYS = LeaseKeys("train-abc-g1")


class Bench:
    def __init__(self, store: ObjectStore) -> None:
        self.clock, self.store = FakeClock(), store
        self.lifeline = Lifeline(clock=self.clock, expires_after_s=1000.0, idle_s=500.0)
        self.watch = NoticeWatch(MetadataClient("http://127.0.0.1:9"), every_s=60)
        self.departures = Departures(
            keys=KEYS,
            link=StoreLink(store, self.clock),
            lifeline=self.lifeline,
            watch=self.watch,
            limit=SpendLimit(limit_usd="1", usd_per_h=Decimal(9)),  # reached at 400 s
            pace=Pace(control_s=1.0, unreachable_s=60.0),
            clock=self.clock,
        )

    def stop(self, document: object) -> None:
        self.store.put_json(KEYS.stop, document)
        self.clock.sleep(1.0)
        assert self.departures.look()


@pytest.fixture
def bench(file_store: ObjectStore) -> Bench:
    return Bench(file_store)


def test_nothing_is_no_reason(bench):
    assert bench.departures.look()
    assert not bench.departures.look()
    assert bench.departures.any() is None


@pytest.mark.parametrize(
    "document",
    [{"reason": "released"}, {"by": "trigger on_kill"}, {"reason": "x", "grace_s": 0}, {"grace_s": "soon"}, ["odd"], 7],
)
def test_a_stop_mark_without_a_grace_ends_the_job_at_once(bench, document):
    bench.stop(document)
    assert bench.departures.at_once() == Departure(reason="stopped")
    assert bench.departures.after_notice() is None


def test_a_stop_mark_with_a_grace_is_a_notice_that_lasts_no_longer_than_any_other(bench):
    bench.stop({"reason": "cheaper elsewhere", "grace_s": 30})
    assert bench.departures.at_once() is None
    assert bench.departures.after_notice() == Departure(reason="cheaper elsewhere", grace_s=30.0, action="stop")
    bench.stop({"grace_s": 3600})
    assert bench.departures.after_notice() == Departure(reason="stopped", grace_s=90.0, action="stop")
    bench.stop({"reason": "released"})
    assert bench.departures.at_once() == Departure(reason="stopped")


def test_a_stop_mark_that_was_seen_stays_while_the_store_is_away(bench, monkeypatch):
    bench.stop({"reason": "released"})
    monkeypatch.setattr(ObjectStore, "get_json", _away)
    bench.clock.sleep(1.0)
    assert bench.departures.look()
    assert bench.departures.at_once() == Departure(reason="stopped")


def test_a_store_that_is_away_too_long_is_a_reason(bench, monkeypatch):
    monkeypatch.setattr(ObjectStore, "get_json", _away)
    bench.departures.look()
    bench.clock.sleep(60.0)
    assert bench.departures.at_once() is None
    bench.clock.sleep(1.0)
    assert bench.departures.at_once() == Departure(reason="unreachable")


def test_a_notice_goes_before_a_grace_and_a_grace_before_the_budget(bench):
    bench.clock.sleep(401.0)
    assert bench.departures.any() == Departure(reason="budget", grace_s=90.0, action="budget")
    bench.stop({"reason": "cheaper elsewhere", "grace_s": 30})
    assert bench.departures.any().reason == "cheaper elsewhere"
    bench.watch.notice = Notice(action="terminate", at="soon", left_s=100.0)
    assert bench.departures.any() == Departure(reason="preempted", grace_s=70.0, action="terminate", at="soon")
    bench.lifeline.on_signal()
    assert bench.departures.any() == Departure(reason="sigterm")


def _away(*_: object) -> None:
    raise GenericError("error sending request")
