"""Strategies from the literature, for one zone or for the first of several that is open.

Greedy, time-sliced and uniform progress follow Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under
Deadlines" (NSDI 2024). All of them share its safety net: without spot and without slack, on demand to the end.
"""

from __future__ import annotations

from include.compute.spot.situation import NOTHING, ON_DEMAND, Choice, Held, Situation

# Slices of a time-sliced job, as many as its paper compares with.
SLICES = 24


class AlwaysOnDemand:
    """The most expensive strategy, and the yardstick of all others."""

    def choose(self, situation: Situation) -> Choice:
        """See `Strategy`."""
        del situation
        return ON_DEMAND


class _WithSafetyNet:
    """Goes on demand for good when the slack is gone and no spot is held."""

    def __init__(self) -> None:
        self._to_the_end = False

    def choose(self, situation: Situation) -> Choice:
        """See `Strategy`."""
        if situation.current.held is not Held.SPOT and situation.slack_is_gone:
            self._to_the_end = True
        if self._to_the_end:
            return ON_DEMAND
        return situation.current if situation.current.held is Held.SPOT else self._without_spot(situation)

    def _without_spot(self, situation: Situation) -> Choice:
        raise NotImplementedError


def _spot(situation: Situation) -> Choice | None:
    zones = situation.open_zones
    return Choice(held=Held.SPOT, zone=zones[0]) if zones else None


class Greedy(_WithSafetyNet):
    """Spot whenever there is some, nothing else until the slack is gone."""

    def _without_spot(self, situation: Situation) -> Choice:
        return _spot(situation) or NOTHING


class TimeSliced(_WithSafetyNet):
    """Greedy in each of equal slices of the time, each of which owes an equal part of the work."""

    def _without_spot(self, situation: Situation) -> Choice:
        terms = situation.terms
        number = min(int(situation.elapsed_s / (terms.deadline_s / SLICES)), SLICES - 1) + 1
        owed = number * terms.work_s / SLICES - situation.done_s
        left = number * terms.deadline_s / SLICES - situation.elapsed_s
        spot = _spot(situation)
        if owed > 0 and left < owed + 2 * terms.changeover_s + terms.tick_s:
            # No time in this slice for another changeover.
            return ON_DEMAND if spot is None or situation.current.held is Held.ON_DEMAND else spot
        return spot or NOTHING


class UniformProgress(_WithSafetyNet):
    """Keep the work done on the straight line from nothing at the start to everything at the deadline.

    The paper's rules contradict each other where on-demand capacity is held, the work is not yet far enough above the
    line, and spot can be had: both readings are here.

    Args:
        spot_wins: Whether spot is taken then; otherwise the hysteresis holds.
    """

    def __init__(self, *, spot_wins: bool) -> None:
        super().__init__()
        self._spot_wins = spot_wins

    def _without_spot(self, situation: Situation) -> Choice:
        on_demand = situation.current.held is Held.ON_DEMAND
        # Two changeovers ahead, so that leaving pays.
        ahead = 2 * situation.terms.changeover_s if on_demand else 0.0
        behind = situation.done_s < self._expected_s(situation, ahead)
        spot = _spot(situation)
        if spot is not None and not (on_demand and behind and not self._spot_wins):
            return spot
        return ON_DEMAND if behind else NOTHING

    def _expected_s(self, situation: Situation, ahead_s: float) -> float:
        terms = situation.terms
        return min(situation.elapsed_s + ahead_s, terms.deadline_s) * terms.work_s / terms.deadline_s
