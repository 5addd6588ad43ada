from __future__ import annotations

import math

import pytest

from include.training.interval import seconds_between, steps_between


def waste(interval_s: float, *, save_s: float, mean_s: float) -> float:
    """Daly's expected time per second of work, equation 20, with a restart that takes no time."""
    return mean_s * (math.exp((interval_s + save_s) / mean_s) - 1) / interval_s


@pytest.mark.parametrize(("save_s", "per_h"), [(0.5, 0.05), (5, 1), (60, 2), (300, 4)])
def test_no_other_interval_costs_noticeably_less(save_s: float, per_h: float) -> None:
    chosen = seconds_between(save_s=save_s, interruptions_per_h=per_h)
    cost = waste(chosen, save_s=save_s, mean_s=3600 / per_h)
    others = [waste(chosen * factor, save_s=save_s, mean_s=3600 / per_h) for factor in (0.5, 0.8, 1.25, 2)]
    assert cost <= min(others)


def test_known_values() -> None:
    # sqrt(2 * 10 * 3600) = 268.3; the higher terms add 3.3 and take the 10 away again.
    assert seconds_between(save_s=10, interruptions_per_h=1) == pytest.approx(261.71, abs=0.05)
    assert seconds_between(save_s=8000, interruptions_per_h=1) == 3600
    assert steps_between(10, 0.5, 1) == 523
    assert steps_between(0, 0.5, 1) == 1
    assert steps_between(10, 1000, 1) == 1


def test_without_interruptions_there_is_no_best_interval() -> None:
    assert steps_between(1, 0.1, 0) is None
    assert math.isinf(seconds_between(save_s=1, interruptions_per_h=0))


@pytest.mark.parametrize(("save_s", "step_s"), [(-1, 1), (1, 0), (1, -1)])
def test_times_that_cannot_be_are_refused(save_s: float, step_s: float) -> None:
    with pytest.raises(ValueError, match="takes time"):
        steps_between(save_s, step_s, 1)
