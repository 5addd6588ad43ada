"""The cheapest way through a trace for who knows the future: what no strategy can beat."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from include.compute.spot.situation import Terms

_HOUR_S = 3600.0
# An hour of work that is left at the deadline costs so many hours on demand.
_LATE = 1000.0


def cheapest_usd(terms: Terms, availability: NDArray[np.bool_], *, start: int) -> float:
    """Least cost of a job on a known trace, changeovers included, by dynamic programming backwards over the ticks.

    Work left is on a grid of quarter ticks, read linearly between its points; the cost of less work is never higher,
    so the error is at most the cost of a quarter tick per changeover.

    Args:
        terms: The job.
        availability: Of spot, shape (zones, ticks).
        start: Tick at which the job starts.
    """
    ticks = math.floor(terms.deadline_s / terms.tick_s)
    known = availability[:, start : start + ticks]
    step_s = terms.tick_s / 4
    work = np.arange(math.ceil(terms.work_s / step_s) + 1) * step_s
    running, starting = np.maximum(work - terms.tick_s, 0.0), np.maximum(work - terms.tick_s + terms.changeover_s, 0.0)
    hours = np.minimum(work, terms.tick_s) / _HOUR_S
    hours_start = np.minimum(work + terms.changeover_s, terms.tick_s) / _HOUR_S
    nothing = work / _HOUR_S * terms.on_demand_usd_per_h * _LATE
    on_demand, spot = nothing.copy(), [nothing.copy() for _ in known]
    for tick in range(known.shape[1] - 1, -1, -1):
        start_on_demand = hours_start * terms.on_demand_usd_per_h + np.interp(starting, work, on_demand)
        leaving = np.minimum(nothing, start_on_demand)
        kept: list[NDArray[np.float64] | None] = []
        for zone, price in enumerate(terms.spot_usd_per_h):
            if not known[zone, tick]:
                kept.append(None)
                continue
            leaving = np.minimum(leaving, hours_start * price + np.interp(starting, work, spot[zone]))
            kept.append(hours * price + np.interp(running, work, spot[zone]))
        on_demand = np.minimum(hours * terms.on_demand_usd_per_h + np.interp(running, work, on_demand), leaving)
        spot = [leaving if stay is None else np.minimum(stay, leaving) for stay in kept]
        nothing = leaving
    return float(np.interp(terms.work_s, work, nothing))
