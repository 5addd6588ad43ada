"""Checkpoint interval."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from include.sizing.checkpoints import checkpoint_seconds, whole_steps


def checkpoint_interval(*, steps=10**9, **facts):
    shared = {name: facts[name] for name in ("step_s", "steps_per_epoch")}
    return whole_steps(checkpoint_seconds(**facts, steps=steps), **shared, steps=steps)


def test_youngs_interval():
    # one interruption in 5 h, 1 s per save: sqrt(2 x 1 x 18000) = 189.7 s, that is 94 steps of 2 s
    assert checkpoint_interval(step_s=2.0, save_s=1.0, interruptions_per_h=0.2, steps_per_epoch=1000) == 94


def test_once_per_epoch_where_a_save_is_short_beside_it():
    # an epoch of 3.6 s, of which a save of 0.1 s is 2.8 %
    assert checkpoint_interval(step_s=0.2, save_s=0.1, interruptions_per_h=0.001, steps_per_epoch=18) == 18


def test_several_epochs_where_a_save_is_long_beside_one():
    # an epoch of 0.36 s: a save of 0.1 s is 5 % of 2 s, that is 100 steps, or 6 epochs rounded
    assert checkpoint_interval(step_s=0.02, save_s=0.1, interruptions_per_h=0.001, steps_per_epoch=18) == 108


def test_young_decides_where_it_asks_for_more_saves_than_five_percent():
    # one interruption per minute, 10 s per save: sqrt(2 x 10 x 60) = 34.6 s and not 10 / 0.05 = 200 s
    assert checkpoint_interval(step_s=0.5, save_s=10.0, interruptions_per_h=60.0, steps_per_epoch=10) == 70


def test_a_save_longer_than_the_whole_training_comes_at_its_end_alone():
    # 90 steps of 0.127 s in 30 epochs, and 60 s per save
    facts = {"step_s": 0.127, "save_s": 60.0, "interruptions_per_h": 3.9e-5, "steps_per_epoch": 3}
    assert checkpoint_interval(**facts, steps=90) == 90


def test_a_step_longer_than_the_interval_is_saved_each_time():
    assert checkpoint_interval(step_s=500.0, save_s=0.1, interruptions_per_h=1.0, steps_per_epoch=18) == 1


@given(
    step_s=st.floats(1e-6, 1e4),
    save_s=st.floats(1e-3, 1e3),
    rate=st.floats(1e-4, 60),
    epoch=st.integers(1, 10**6),
    epochs=st.integers(1, 100),
)
def test_bounds_hold_and_more_interruptions_never_save_less_often(step_s, save_s, rate, epoch, epochs):
    facts = {"step_s": step_s, "save_s": save_s, "steps_per_epoch": epoch, "steps": epoch * epochs}
    calm, rough = (checkpoint_interval(interruptions_per_h=r, **facts) for r in (rate, 2 * rate))
    assert 1 <= rough <= calm <= epoch * epochs
    assert calm <= epoch or calm % epoch == 0


def test_capacity_that_nobody_takes_away_is_saved_once_per_epoch():
    assert checkpoint_interval(step_s=2.0, save_s=1.0, interruptions_per_h=0.0, steps_per_epoch=18) == 18
