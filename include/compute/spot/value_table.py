"""Expected cost of finishing a job, by what is held, the market, the work left and the time left.

A finite-horizon Markov decision process, solved backwards over a grid of time (Puterman, "Markov Decision Processes",
chapter 4). The market is up or down, each fresh or lasting (`include.compute.spot.outlook`); held is spot, on-demand
capacity, or nothing. Costs are in hours on demand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from include.compute.spot.outlook import FRESH_H, Outlook

UP_FRESH, UP_LASTING, DOWN_FRESH, DOWN_LASTING = range(4)
SPOT, ON_DEMAND, NOTHING = 0, 2, 6  # first row of each; spot has the two rows of a market that is up
_ROWS = 10
_HOUR_S = 3600.0
# Steps of the grid over the whole deadline.
_STEPS = 400
# An hour of work that is not done at the deadline costs so many hours on demand: enough that none is left on purpose.
_LATE = 3.0
# Rates are rounded to so many values per factor of ten, so that tables are found again.
_PER_DECADE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTable:
    """Expected cost to the end, in hours on demand.

    Attributes:
        step_s: Seconds per step of both grids.
        values: Shape (steps of time left, rows of state, steps of work left).
    """

    step_s: float
    values: NDArray[np.float32]

    def cost_h(self, row: int, *, work_left_s: float, time_left_s: float) -> float:
        """Bilinear between the grid's points."""
        time, work = max(time_left_s, 0.0) / self.step_s, max(work_left_s, 0.0) / self.step_s
        first, along = min(int(time), self.values.shape[0] - 2), min(int(work), self.values.shape[2] - 2)
        late, far = min(time - first, 1.0), min(work - along, 1.0)
        (a, b), (c, d) = self.values[first : first + 2, row, along : along + 2].tolist()
        return (1 - late) * ((1 - far) * a + far * b) + late * ((1 - far) * c + far * d)


def build_table(
    outlook: Outlook, *, work_s: float, deadline_s: float, changeover_s: float, spot_share: float
) -> ValueTable:
    """The table for a job.

    Args:
        outlook: How soon spot goes and comes.
        work_s: Work of the whole job.
        deadline_s: Its deadline.
        changeover_s: Seconds without progress after a start.
        spot_share: Price on spot over price on demand.
    """
    return _table(
        (
            _rounded(outlook.fresh_loss_per_h),
            _rounded(outlook.lasting_loss_per_h),
            _rounded(outlook.fresh_return_per_h),
            _rounded(outlook.lasting_return_per_h),
            round(outlook.hop, 1),
        ),
        (work_s, deadline_s, changeover_s, spot_share),
    )


def _rounded(rate: float) -> float:
    return float(10 ** (round(math.log10(rate) * _PER_DECADE) / _PER_DECADE))


@lru_cache(maxsize=64)
def _table(rates: tuple[float, ...], job: tuple[float, float, float, float]) -> ValueTable:
    work_s, deadline_s, changeover_s, share = job
    step_s = deadline_s / _STEPS
    # A start near the whole of the work adds its changeover to it.
    work = np.arange(math.ceil((work_s + changeover_s) / step_s) + 3, dtype=np.float64)
    values = np.empty((_STEPS + 1, _ROWS, len(work)), dtype=np.float32)
    costs = np.tile(work * step_s / _HOUR_S * _LATE, (_ROWS, 1))
    values[0] = costs
    backward = _Backward(rates=rates, step_h=step_s / _HOUR_S, changeover=changeover_s / step_s, share=share, work=work)
    for step in range(1, _STEPS + 1):
        costs = backward.earlier(costs)
        values[step] = costs
    return ValueTable(step_s=step_s, values=values)


class _Backward:
    """One step backwards in time."""

    def __init__(
        self, *, rates: tuple[float, ...], step_h: float, changeover: float, share: float, work: NDArray[np.float64]
    ) -> None:
        fresh_loss, lasting_loss, fresh_return, lasting_return, hop = rates
        self._step_h = step_h
        chance = self._chance
        ages = chance(1.0 / FRESH_H)
        gone = chance(fresh_loss), chance(lasting_loss)
        self._spot = np.zeros((2, 4))  # from spot in a market up, to what nothing is held in after a loss
        for row in (UP_FRESH, UP_LASTING):
            self._spot[row, UP_LASTING], self._spot[row, DOWN_FRESH] = gone[row] * hop, gone[row] * (1 - hop)
        self._stays = np.array([[(1 - gone[0]) * (1 - ages), (1 - gone[0]) * ages], [0.0, 1 - gone[1]]])
        # Of all zones together: one that goes is not missed where another is open.
        fresh_all, lasting_all = chance(fresh_loss * (1 - hop)), chance(lasting_loss * (1 - hop))
        back = chance(fresh_return), chance(lasting_return)
        self._market = np.array(
            [
                [(1 - fresh_all) * (1 - ages), (1 - fresh_all) * ages, fresh_all, 0.0],
                [0.0, 1 - lasting_all, lasting_all, 0.0],
                [back[0], 0.0, (1 - back[0]) * (1 - ages), (1 - back[0]) * ages],
                [back[1], 0.0, 0.0, 1 - back[1]],
            ]
        )
        self._share = share
        self._work = work
        self._paid = np.minimum(work, 1.0) * step_h
        self._paid_start = np.minimum(work + changeover, 1.0) * step_h
        self._running, self._starting = np.maximum(work - 1, 0.0), np.maximum(work - 1 + changeover, 0.0)

    def _chance(self, rate_per_h: float) -> float:
        """Chance of an event within one step."""
        return 1.0 - math.exp(-rate_per_h * self._step_h)

    def earlier(self, costs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Costs with one step more of time left."""
        spot, on_demand, nothing = costs[SPOT:ON_DEMAND], costs[ON_DEMAND:NOTHING], costs[NOTHING:]
        after_spot = self._stays @ spot + self._spot @ nothing
        after_on_demand, waiting = self._market @ on_demand, self._market @ nothing
        start_spot = self._share * self._paid_start + self._at(after_spot, self._starting)
        start_on_demand = self._paid_start + self._at(after_on_demand, self._starting)
        new = np.empty_like(costs)
        new[SPOT:ON_DEMAND] = np.minimum(
            self._share * self._paid + self._at(after_spot, self._running), start_on_demand[:2]
        )
        new[ON_DEMAND:NOTHING] = np.minimum(self._paid + self._at(after_on_demand, self._running), waiting)
        new[NOTHING:] = np.minimum(waiting, start_on_demand)
        for first in (ON_DEMAND, NOTHING):
            new[first : first + 2] = np.minimum(new[first : first + 2], start_spot)
        new[:, 0] = 0.0
        return new

    def _at(self, rows: NDArray[np.float64], work: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([np.interp(work, self._work, row) for row in rows])
