"""What a strategy sees at each decision, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Held(StrEnum):
    """Kinds of capacity."""

    NOTHING = "nothing"
    SPOT = "spot"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Capacity to hold until the next decision.

    Attributes:
        held: Its kind.
        zone: Index of the zone, for spot.
    """

    held: Held
    zone: int | None = None


NOTHING = Choice(held=Held.NOTHING)
ON_DEMAND = Choice(held=Held.ON_DEMAND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What stays the same over a job.

    Attributes:
        work_s: Seconds of undisturbed work.
        deadline_s: Seconds from the start until the work has to be done.
        changeover_s: Seconds without progress after every start: boot, data, restore.
        tick_s: Seconds between decisions.
        on_demand_usd_per_h: Price on demand.
        spot_usd_per_h: Price on spot, by zone.
    """

    work_s: float
    deadline_s: float
    changeover_s: float
    tick_s: float
    on_demand_usd_per_h: float
    spot_usd_per_h: tuple[float, ...]


@dataclass(slots=True, kw_only=True)
class Situation:
    """One decision.

    Attributes:
        terms: What stays the same.
        elapsed_s: Seconds since the start.
        done_s: Seconds of work done.
        current: Capacity held; spot that was just taken away is not held any more.
        pending_s: Seconds of its changeover that are left.
        history: Whether spot could be had, by zone and tick, shape (zones, ticks); the last tick is now.
    """

    terms: Terms
    elapsed_s: float
    done_s: float
    current: Choice
    pending_s: float
    history: NDArray[np.bool_]

    @property
    def work_left_s(self) -> float:
        """Seconds of work to be done."""
        return self.terms.work_s - self.done_s

    @property
    def time_left_s(self) -> float:
        """Seconds until the deadline."""
        return self.terms.deadline_s - self.elapsed_s

    @property
    def open_zones(self) -> list[int]:
        """Zones where spot can be had now."""
        return [int(zone) for zone in np.flatnonzero(self.history[:, -1])]

    @property
    def slack_is_gone(self) -> bool:
        """Whether one more loss could make the job late: two changeovers and one tick from the deadline."""
        return self.time_left_s < self.work_left_s + 2 * self.terms.changeover_s + self.terms.tick_s


class Strategy(Protocol):
    """Decides for one job; may remember what it saw."""

    def choose(self, situation: Situation) -> Choice:
        """The capacity to hold until the next decision."""
        ...
