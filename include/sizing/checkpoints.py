"""How often a training saves."""

from __future__ import annotations

import math

from include.sizing.assumptions import HOUR_S


def checkpoint_interval(*, step_s: float, save_s: float, interruptions_per_h: float, steps_per_epoch: int) -> int:
    """Optimizer steps between checkpoints.

    Young's first-order optimum, sqrt(2 x save time x mean time between interruptions) (CACM 1974; Daly, FGCS 2006,
    refines it for intervals near the mean time, which these are far from), but at least once per epoch.

    Args:
        step_s: Seconds of one step.
        save_s: Seconds of one save.
        interruptions_per_h: Expected interruptions per hour.
        steps_per_epoch: Upper bound.
    """
    seconds = math.sqrt(2 * save_s * HOUR_S / interruptions_per_h)
    return max(1, min(steps_per_epoch, math.floor(seconds / step_s)))
