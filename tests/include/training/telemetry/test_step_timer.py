from __future__ import annotations

import random

import pytest

from include.training.telemetry.step_facts import quantile
from include.training.telemetry.step_timer import StepTimer


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Hands:
    return Hands()


def step(timer: StepTimer, clock: Hands, *, wait: float = 0.1, compute: float = 0.3, other: float = 0.0) -> None:
    with timer.waiting():
        clock.turn(wait)
    with timer.computing():
        clock.turn(compute)
    clock.turn(other)
    timer.end_step(samples=10)


def test_shares_of_the_parts_are_of_the_whole_time(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    for _ in range(20):
        step(timer, clock, wait=0.1, compute=0.3, other=0.1)
    facts = timer.facts()
    assert (facts.steps, facts.samples) == (20, 200)
    assert facts.seconds == pytest.approx(10.0)
    assert facts.share("data_wait") == pytest.approx(0.2)
    assert facts.share("compute") == pytest.approx(0.6)
    assert facts.samples_per_s == pytest.approx(20.0)
    assert facts.step_p50_s == pytest.approx(0.5)


def test_part_that_the_loop_does_not_time_is_unknown_and_not_zero(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    step(timer, clock)
    assert timer.facts().share("h2d") is None
    assert timer.facts().share("save") is None


def test_before_the_first_step_nothing_is_known() -> None:
    facts = StepTimer().facts()
    assert (facts.step_p50_s, facts.step_p95_s, facts.step_longest_s, facts.samples_per_s) == (None, None, None, None)
    assert facts.share("compute") is None
    assert facts.windows == ()


def test_time_before_begin_belongs_to_no_step(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    clock.turn(60)
    timer.begin()
    step(timer, clock, wait=0.1, compute=0.4)
    assert timer.facts().seconds == pytest.approx(0.5)


def test_validation_is_no_part_of_a_step(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    step(timer, clock)
    with timer.evaluating():
        clock.turn(5.0)
    step(timer, clock)
    facts = timer.facts()
    assert facts.step_longest_s == pytest.approx(0.4)
    assert facts.seconds == pytest.approx(0.8)
    assert facts.evaluated_s == pytest.approx(5.0)
    assert sum(window.seconds for window in facts.windows) == pytest.approx(0.8)


def test_save_after_a_step_counts_to_the_next_one(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    step(timer, clock)
    with timer.saving():
        clock.turn(1.0)
    step(timer, clock)
    assert timer.facts().step_longest_s == pytest.approx(1.4)


def test_save_after_the_last_step_is_not_lost(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    for _ in range(5):
        step(timer, clock)
    with timer.saving():
        clock.turn(2.0)
    facts = timer.facts()
    assert facts.seconds == pytest.approx(4.0)
    assert facts.share("save") == pytest.approx(0.5)


def test_quantiles_see_a_slow_step_that_comes_at_a_fixed_distance(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    for number in range(20_000):
        step(timer, clock, wait=0.5 if number % 8 == 0 else 0.0, compute=0.01)
    wait = timer.facts().parts["data_wait"]
    assert wait.p50_s == pytest.approx(0.0)
    assert wait.p95_s == pytest.approx(0.5)
    assert wait.longest_s == pytest.approx(0.5)


def test_memory_is_bounded_and_no_time_is_lost_by_joining_windows(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    for _ in range(3000):
        step(timer, clock, wait=0.2, compute=0.8)
    facts = timer.facts()
    assert len(facts.windows) <= 242
    assert len(timer._sample) <= 2048
    assert sum(window.seconds for window in facts.windows) == pytest.approx(3000)
    assert sum(window.steps for window in facts.windows) == 3000
    assert sum(window.parts_s["data_wait"] for window in facts.windows) == pytest.approx(600)
    assert [window.at_s for window in facts.windows] == sorted(window.at_s for window in facts.windows)


def test_global_random_generator_is_left_alone(clock: Hands) -> None:
    random.seed(1)
    expected = random.Random(1).random()
    timer = StepTimer(clock=clock)
    for _ in range(2500):
        step(timer, clock)
    assert random.random() == expected


@pytest.mark.parametrize(
    ("world", "gradient_bytes", "sent"), [(1, 800, None), (2, None, None), (2, 800, 10 * 800), (4, 800, 10 * 1200)]
)
def test_bytes_sent_are_those_of_a_ring(world: int, gradient_bytes: int | None, sent: int | None, clock: Hands) -> None:
    timer = StepTimer(world=world, gradient_bytes=gradient_bytes, clock=clock)
    for _ in range(10):
        step(timer, clock)
    assert timer.facts().bytes_sent == sent


def test_progress_gets_the_shares_of_the_newest_window(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    assert timer.shares() == {}
    step(timer, clock, wait=0.5, compute=0.5)
    step(timer, clock, wait=0.9, compute=0.1)
    assert timer.shares()["data_wait"] == pytest.approx(0.9)


def test_follower_is_told_of_each_step(clock: Hands) -> None:
    timer, told = StepTimer(clock=clock), []
    timer.after_step = lambda: told.append(timer.steps)
    step(timer, clock)
    step(timer, clock)
    assert told == [1, 2]


def test_forward_is_a_part_of_compute(clock: Hands) -> None:
    timer = StepTimer(clock=clock)
    forward = timer.timing_forward(lambda seconds: clock.turn(seconds) or "logits")
    with timer.computing():
        assert forward(0.1) == "logits"
        clock.turn(0.2)
    timer.end_step(samples=1)
    facts = timer.facts()
    assert facts.share("forward") == pytest.approx(1 / 3)
    assert facts.share("compute") == pytest.approx(1.0)


def test_section_survives_an_exception(clock: Hands) -> None:
    timer = StepTimer(clock=clock)

    def diverge() -> None:
        with timer.computing():
            clock.turn(0.2)
            raise ValueError

    with pytest.raises(ValueError):
        diverge()
    assert timer.facts().parts["compute"].total_s == pytest.approx(0.2)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 3), (0.95, 4), (1.0, 4)])
def test_quantile_is_one_of_the_values(share: float, value: float) -> None:
    assert quantile([3, 1, 4, 2], share) == value
    assert quantile([], share) is None
