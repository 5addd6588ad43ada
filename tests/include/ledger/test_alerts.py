"""Alerts: recorded once, sent at least once over each channel, never for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest

from include.ledger.alerts import Alert, has_alert, mark_sent, record_alert, unsent_alerts


@pytest.fixture
def alarmed(ledger, run):
    assert record_alert(ledger, kind="interruption", key="train-1-g1", message="taken away", **run)
    assert record_alert(ledger, kind="budget_80", key="80", message="8 of 10 USD", **run)
    return ledger


def unsent(ledger, clock, *, channel: str = "log", hours: int = 24, **where: str) -> list[Alert]:
    return list(unsent_alerts(ledger, channel=channel, since=clock.now() - timedelta(hours=hours), **where))


def test_an_alert_is_recorded_once_per_run(alarmed, run):
    assert not record_alert(alarmed, kind="interruption", key="train-1-g1", message="told again", **run)
    assert record_alert(alarmed, kind="interruption", key="train-1-g1", message="x", dag_id="digits", run_id="other")
    assert has_alert(alarmed, kind="budget_80", key="80", **run)
    assert not has_alert(alarmed, kind="budget_reached", key="80", **run)


def test_an_unknown_kind_is_refused(ledger, run):
    with pytest.raises(ValueError, match="allowed: interruption"):
        record_alert(ledger, kind="weather", key="k", message="rain", **run)


def test_each_channel_gets_the_alerts_in_their_order_until_they_are_marked(alarmed, clock):
    first, second = unsent(alarmed, clock)
    assert [first.kind, second.kind] == ["interruption", "budget_80"]
    assert mark_sent(alarmed, first, channel="log")
    assert not mark_sent(alarmed, first, channel="log")
    assert unsent(alarmed, clock) == [second]
    assert unsent(alarmed, clock, channel="team_webhook") == [first, second]


def test_alerts_of_one_run_are_found_alone(alarmed, clock, run):
    record_alert(alarmed, kind="reaper", key="x", message="ended", dag_id="", run_id="")
    assert len(unsent(alarmed, clock)) == 3
    assert len(unsent(alarmed, clock, **run)) == 2


def test_an_old_alert_is_let_go(alarmed, clock):
    clock.sleep(3601)
    assert unsent(alarmed, clock, hours=1) == []
    assert len(unsent(alarmed, clock, hours=2)) == 2
