"""When an agent leaves, on a clock that moves only when told to."""

from __future__ import annotations

from datetime import timedelta

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


def rented(clock: FakeClock, **bounds: float) -> Lifeline:
    return Lifeline(clock=clock, expires_after_s=100.0, idle_s=10.0, extends=True, **bounds)


def beat(lifeline: Lifeline) -> float:
    """One heartbeat that arrives; returns the seconds that are left after it."""
    lifeline.announced(end := lifeline.next_end())
    return end


def test_a_rented_lease_moves_its_end_on_while_its_beats_arrive(clock):
    lifeline = rented(clock)
    for _ in range(100):
        clock.sleep(30.0)
        lifeline.worked()
        assert beat(lifeline) - clock.monotonic() > 49
        assert lifeline.reason_to_leave(stopped=False) is None


def test_its_end_moves_by_steps_and_not_with_every_beat(clock):
    lifeline = rented(clock)
    ends = []
    for _ in range(10):
        clock.sleep(15.0)
        ends.append(beat(lifeline))
    assert ends == [100, 100, 100, 160, 160, 160, 160, 220, 220, 220]


def test_an_end_that_nobody_was_told_of_does_not_hold(clock):
    lifeline = rented(clock)
    clock.sleep(99.0)
    lifeline.worked()
    assert lifeline.next_end() == 199.0  # proposed, and the store did not take the beat
    clock.sleep(2.0)
    assert lifeline.reason_to_leave(stopped=False) == "expired"


def test_no_extension_goes_beyond_the_bound(clock):
    lifeline = rented(clock, longest_s=250.0)
    while clock.monotonic() < 250.0:
        assert lifeline.reason_to_leave(stopped=False) is None
        beat(lifeline)
        lifeline.worked()
        clock.sleep(10.0)
    clock.sleep(1.0)
    assert beat(lifeline) == 250.0
    assert lifeline.reason_to_leave(stopped=False) == "expired"
    assert rented(FakeClock(), longest_s=30.0).next_end() == 30.0


def test_an_agent_that_is_leaving_extends_nothing(clock):
    lifeline = rented(clock)
    lifeline.leave()
    clock.sleep(60.0)
    assert beat(lifeline) == 100.0


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
def test_a_jump_of_the_wall_clock_neither_ends_nor_extends(clock, jump):
    lifeline = rented(clock)
    clock.current += jump
    assert lifeline.reason_to_leave(stopped=False) is None
    assert beat(lifeline) == 100.0
    clock.sleep(101.0)
    assert lifeline.reason_to_leave(stopped=False) == "expired"


def test_a_lease_on_this_machine_extends_nothing(lifeline, clock):
    clock.sleep(90.0)
    assert beat(lifeline) == 100.0


@pytest.mark.parametrize(
    ("left_s", "grace_s"),
    [(120.0, 90.0), (300.0, 90.0), (100.0, 70.0), (60.0, 30.0), (40.0, 20.0), (10.0, 5.0), (0.0, 0.0), (-5.0, 0.0)],
)
def test_the_grace_of_a_notice_ends_before_the_capacity_does(left_s, grace_s):
    assert notice_grace_s(left_s) == grace_s
