"""Checkpoint interval."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.sizing.checkpoints import checkpoint_seconds, whole_steps


def checkpoint_interval(**facts):
    shared = {name: facts[name] for name in ("step_s", "steps_per_epoch")}
    return whole_steps(checkpoint_seconds(**facts), **shared)


def test_youngs_interval():
    # one interruption in 5 h, 1 s per save: sqrt(2 x 1 x 18000) = 189.7 s, that is 94 steps of 2 s
    assert checkpoint_interval(step_s=2.0, save_s=1.0, interruptions_per_h=0.2, steps_per_epoch=1000) == 94


def test_at_least_once_per_epoch():
    assert checkpoint_interval(step_s=0.02, save_s=0.1, interruptions_per_h=0.001, steps_per_epoch=18) == 18


def test_a_step_longer_than_the_interval_is_saved_each_time():
    assert checkpoint_interval(step_s=500.0, save_s=0.1, interruptions_per_h=1.0, steps_per_epoch=18) == 1


@given(step_s=st.floats(1e-6, 1e4), save_s=st.floats(1e-3, 1e3), rate=st.floats(1e-4, 60), epoch=st.integers(1, 10**6))
def test_bounds_hold_and_more_interruptions_never_save_less_often(step_s, save_s, rate, epoch):
    calm, rough = (
        checkpoint_interval(step_s=step_s, save_s=save_s, interruptions_per_h=r, steps_per_epoch=epoch)
        for r in (rate, 2 * rate)
    )
    assert 1 <= rough <= calm <= epoch


def test_capacity_that_nobody_takes_away_is_saved_once_per_epoch():
    assert checkpoint_interval(step_s=0.1, save_s=1.0, interruptions_per_h=0.0, steps_per_epoch=18) == 18
