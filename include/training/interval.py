"""How often a training saves, from what saving costs and how often it is interrupted."""

from __future__ import annotations

import math

_HOUR_S = 3600.0


def seconds_between(*, save_s: float, interruptions_per_h: float) -> float:
    """Seconds of work between two saves for which lost work and saving together cost least.

    With the save time C and the mean time between interruptions M: J. T. Daly, "A higher order estimate of the optimum
    checkpoint interval for restart dumps", FGCS 22 (2006), equation 37: sqrt(2CM) (1 + sqrt(C / 2M) / 3 + C / 18M) - C
    for C < 2M, else M. Its first term is J. W. Young, "A first order approximation to the optimum checkpoint interval",
    CACM 17 (1974).

    Args:
        save_s: Seconds of one save, from state to commit.
        interruptions_per_h: Interruptions per hour; 0 gives infinity.
    """
    if interruptions_per_h <= 0:
        return math.inf
    mean_s = _HOUR_S / interruptions_per_h
    if save_s >= 2 * mean_s:
        return mean_s
    ratio = save_s / (2 * mean_s)
    return math.sqrt(2 * save_s * mean_s) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_s


def steps_between(save_s: float, step_s: float, interruptions_per_h: float) -> int | None:
    """`seconds_between` in whole optimizer steps, at least one.

    Args:
        save_s: Seconds of one save, from state to commit, measured.
        step_s: Seconds of one step, measured.
        interruptions_per_h: Interruptions per hour.

    Returns:
        Steps between saves; None without interruptions, when no interval is better than the other.
    """
    if save_s < 0 or step_s <= 0:
        raise ValueError("a step takes time and a save takes none back")
    seconds = seconds_between(save_s=save_s, interruptions_per_h=interruptions_per_h)
    return None if math.isinf(seconds) else max(1, math.floor(seconds / step_s))
