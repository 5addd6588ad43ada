"""How often a training saves."""

from __future__ import annotations

import math

from include.sizing.assumptions import HOUR_S

# A save per epoch costs at most this share of an epoch's steps. Below it a save is worth having for what no rate of
# interruptions knows of: a person's kill, a reboot, an epoch that was the best.
EPOCH_SAVE_SHARE = 0.05


def checkpoint_seconds(
    *, step_s: float, save_s: float, interruptions_per_h: float, steps_per_epoch: int, steps: int
) -> float:
    """Seconds of steps between checkpoints.

    Young's first-order optimum, sqrt(2 x save time x mean time between interruptions) (CACM 1974; Daly, FGCS 2006,
    refines it for intervals near the mean time, which these are far from), from one step to the whole training, which
    is saved at its end in any case. Where that is longer than an epoch, each epoch is saved as long as its save takes
    no more than `EPOCH_SAVE_SHARE` of its steps; beyond that the interval is the one at which saves take this share.

    Args:
        step_s: Seconds of one step.
        save_s: Seconds of one save.
        interruptions_per_h: Expected interruptions per hour; 0 for capacity that nobody takes away.
        steps_per_epoch: Steps of an epoch.
        steps: Steps of the training.
    """
    cheap_s = max(steps_per_epoch * step_s, save_s / EPOCH_SAVE_SHARE)
    young_s = math.sqrt(2 * save_s * HOUR_S / interruptions_per_h) if interruptions_per_h > 0 else math.inf
    return max(step_s, min(young_s, cheap_s, steps * step_s))


def whole_steps(seconds: float, *, step_s: float, steps_per_epoch: int, steps: int) -> int:
    """An interval in whole optimizer steps; in whole epochs where it is longer than one, so that saves have a metric.

    Args:
        seconds: The interval.
        step_s: Seconds of one step.
        steps_per_epoch: Steps of an epoch.
        steps: Steps of the training, the upper bound.
    """
    # An epoch's seconds over a step's may come out a hair below its steps.
    found = max(1, math.floor(seconds / step_s + 1e-9))
    if found > steps_per_epoch:
        found = round(found / steps_per_epoch) * steps_per_epoch
    return min(found, steps)
