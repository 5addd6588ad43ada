"""When an agent leaves, on a clock that moves only when told to."""

from __future__ import annotations

import pytest

from include.compute.lifeline import Lifeline, notice_grace_s
from include.core.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lifeline(clock: FakeClock) -> Lifeline:
    return Lifeline(clock=clock, expires_after_s=100.0, idle_s=10.0)


def test_it_stays_while_there_is_nothing_to_leave_for(lifeline, clock):
    clock.sleep(10.0)
    assert lifeline.reason_to_leave(stopped=False) is None


def test_it_leaves_after_too_long_without_work(lifeline, clock):
    clock.sleep(8.0)
    lifeline.worked()
    clock.sleep(9.0)
    assert lifeline.reason_to_leave(stopped=False) is None
    clock.sleep(1.1)
    assert lifeline.reason_to_leave(stopped=False) == "idle"


def test_it_expires_however_busy_it_is(lifeline, clock):
    for _ in range(21):
        clock.sleep(5.0)
        lifeline.worked()
    assert lifeline.reason_to_leave(stopped=False) == "expired"


def test_an_order_comes_before_its_own_reasons(lifeline, clock):
    clock.sleep(1000.0)
    assert lifeline.reason_to_leave(stopped=True) == "stopped"
    lifeline.on_signal(15, None)
    assert lifeline.reason_to_leave(stopped=True) == "sigterm"


@pytest.mark.parametrize(
    ("left_s", "grace_s"),
    [(120.0, 90.0), (300.0, 90.0), (100.0, 70.0), (60.0, 30.0), (40.0, 20.0), (10.0, 5.0), (0.0, 0.0), (-5.0, 0.0)],
)
def test_the_grace_of_a_notice_ends_before_the_capacity_does(left_s, grace_s):
    assert notice_grace_s(left_s) == grace_s
