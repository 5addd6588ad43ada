from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from include.compute.spot.simulator import simulate
from include.compute.spot.situation import NOTHING, ON_DEMAND, Choice, Held, Situation, Terms
from include.compute.spot.strategies import AlwaysOnDemand, Greedy

HOUR = 3600.0


def terms(**changed: object) -> Terms:
    given = {
        "work_s": 2 * HOUR, "deadline_s": 4 * HOUR, "changeover_s": 600.0, "tick_s": 600.0,
        "on_demand_usd_per_h": 3.0, "spot_usd_per_h": (1.0,),
    }  # fmt: skip
    return Terms(**{**given, **changed})  # type: ignore[arg-type] - fields of Terms by name


def trace(*zones: str) -> NDArray[np.bool_]:
    return np.array([[sign == "x" for sign in zone] for zone in zones])


class Follow:
    """Answers from a list, then on demand."""

    def __init__(self, *choices: Choice) -> None:
        self._choices = list(choices)
        self.seen: list[Situation] = []

    def choose(self, situation: Situation) -> Choice:
        self.seen.append(situation)
        return self._choices.pop(0) if self._choices else ON_DEMAND


def spot(zone: int = 0) -> Choice:
    return Choice(held=Held.SPOT, zone=zone)


def test_on_demand_pays_for_work_and_one_changeover() -> None:
    found = simulate(AlwaysOnDemand(), terms(), trace("." * 20), start=0)
    assert found.elapsed_s == pytest.approx(2 * HOUR + 600)
    assert found.usd == pytest.approx(3.0 * (2 + 600 / HOUR))
    assert (found.preemptions, found.late, found.spot_s) == (0, False, 0)


def test_last_tick_is_paid_up_to_the_end_of_the_work() -> None:
    found = simulate(AlwaysOnDemand(), terms(work_s=700.0, changeover_s=0.0), trace("." * 9), start=0)
    assert (found.elapsed_s, found.usd) == (700.0, pytest.approx(3.0 * 700 / HOUR))


def test_loss_keeps_the_work_and_costs_a_changeover() -> None:
    found = simulate(Greedy(), terms(work_s=3000.0), trace("xxx.xxxxxxxx"), start=0)
    # One tick of changeover, two of work, one without spot, one of changeover, three of work.
    assert (found.elapsed_s, found.preemptions) == (8 * 600.0, 1)
    assert found.usd == pytest.approx(7 * 600 / HOUR)
    assert (found.spot_s, found.spot_work_s) == (7 * 600.0, 3000.0)


def test_changeover_longer_than_a_tick_goes_on_in_the_next() -> None:
    found = simulate(AlwaysOnDemand(), terms(work_s=600.0, changeover_s=900.0), trace("." * 9), start=0)
    assert found.elapsed_s == 1500.0


def test_moving_to_another_zone_is_a_start() -> None:
    follow = Follow(spot(0), spot(0), spot(1), spot(1), spot(1))
    prices = terms(work_s=1800.0, spot_usd_per_h=(1.0, 2.0))
    found = simulate(follow, prices, trace("xxxxx", "xxxxx"), start=0)
    assert found.usd == pytest.approx((2 * 1.0 + 3 * 2.0) * 600 / HOUR)
    assert [s.pending_s for s in follow.seen] == [0, 0, 0, 0, 0]


def test_strategy_sees_no_future_and_all_of_the_past() -> None:
    follow = Follow(NOTHING, NOTHING)
    simulate(follow, terms(work_s=600.0), trace("..x.xxxxx"), start=3)
    assert [s.history.shape[1] for s in follow.seen[:2]] == [4, 5]
    assert follow.seen[1].open_zones == [0]


def test_what_ends_after_the_deadline_is_late() -> None:
    assert simulate(Follow(NOTHING, NOTHING), terms(deadline_s=2 * HOUR), trace("." * 20), start=0).late


def test_trace_that_ends_before_the_job_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before the job"):
        simulate(AlwaysOnDemand(), terms(), trace("...."), start=0)


def test_spot_where_there_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="zone 0, where there is none"):
        simulate(Follow(spot(0)), terms(), trace("." * 20), start=0)
