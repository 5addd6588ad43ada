"""How often a training saves."""

from __future__ import annotations

import math

from include.sizing.assumptions import HOUR_S


def checkpoint_seconds(*, step_s: float, save_s: float, interruptions_per_h: float, steps_per_epoch: int) -> float:
    """Seconds of steps between checkpoints.

    Young's first-order optimum, sqrt(2 x save time x mean time between interruptions) (CACM 1974; Daly, FGCS 2006,
    refines it for intervals near the mean time, which these are far from), but at least one step and at most an epoch.

    Args:
        step_s: Seconds of one step.
        save_s: Seconds of one save.
        interruptions_per_h: Expected interruptions per hour; 0 for capacity that nobody takes away.
        steps_per_epoch: Upper bound.
    """
    epoch_s = steps_per_epoch * step_s
    if interruptions_per_h <= 0:
        return epoch_s
    return max(step_s, min(epoch_s, math.sqrt(2 * save_s * HOUR_S / interruptions_per_h)))


def whole_steps(seconds: float, *, step_s: float, steps_per_epoch: int) -> int:
    """An interval in whole optimizer steps, from 1 to an epoch."""
    # An epoch's seconds over a step's may come out a hair below its steps.
    return max(1, min(steps_per_epoch, math.floor(seconds / step_s + 1e-9)))
