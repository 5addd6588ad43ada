from __future__ import annotations

import numpy as np
import pytest

from include.compute.spot.deadline_aware import DeadlineAware
from include.compute.spot.optimum import cheapest_usd
from include.compute.spot.outlook import look_back
from include.compute.spot.simulator import Outcome, simulate
from include.compute.spot.situation import NOTHING, ON_DEMAND, Choice, Held, Situation, Strategy, Terms
from include.compute.spot.strategies import AlwaysOnDemand, Greedy, TimeSliced, UniformProgress
from include.compute.spot.value_table import NOTHING as NOTHING_ROW
from include.compute.spot.value_table import ON_DEMAND as ON_DEMAND_ROW
from include.compute.spot.value_table import SPOT as SPOT_ROW
from include.compute.spot.value_table import UP_LASTING, build_table

HOUR = 3600.0
JOB = Terms(
    work_s=12 * HOUR, deadline_s=16 * HOUR, changeover_s=600.0, tick_s=600.0,
    on_demand_usd_per_h=3.0, spot_usd_per_h=(1.0,),
)  # fmt: skip
TWO_ZONES = Terms(**{**{n: getattr(JOB, n) for n in Terms.__dataclass_fields__}, "spot_usd_per_h": (1.0, 1.0)})
STRATEGIES = (
    AlwaysOnDemand, Greedy, TimeSliced, lambda: UniformProgress(spot_wins=True),
    lambda: UniformProgress(spot_wins=False), DeadlineAware,
)  # fmt: skip


def market(seed: int, *, zones: int = 1, up_h: float = 3.0, down_h: float = 2.0, ticks: int = 2000) -> np.ndarray:
    """Zones that are up and down for exponential times."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(zones):
        row: list[bool] = []
        state = bool(random.random() < 0.5)
        while len(row) < ticks:
            row += [state] * max(1, round(random.exponential(up_h if state else down_h) * 6))
            state = not state
        rows.append(row[:ticks])
    return np.array(rows)


@pytest.mark.parametrize("make", STRATEGIES)
@pytest.mark.parametrize("seed", range(6))
def test_nobody_is_late_and_nobody_beats_who_knows_the_future(make: type[Strategy], seed: int) -> None:
    zones = market(seed, up_h=0.5 + seed / 2, down_h=1.5)
    found = simulate(make(), JOB, zones, start=900)
    assert not found.late
    # A grid of quarter ticks: the optimum may be that much too high for each start.
    assert found.usd >= cheapest_usd(JOB, zones, start=900) * 0.999 - 0.01


@pytest.mark.parametrize("slack_h", [0.4, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_spot_that_flickers_makes_no_job_late(slack_h: float, seed: int) -> None:
    terms = Terms(**{**{n: getattr(JOB, n) for n in Terms.__dataclass_fields__}, "deadline_s": (12 + slack_h) * HOUR})
    assert not simulate(DeadlineAware(), terms, market(seed, up_h=0.2, down_h=0.2), start=600).late


def mean_usd(make: type[Strategy], terms: Terms, *, zones: int, **times: float) -> float:
    runs: list[Outcome] = [
        simulate(make(), terms, market(seed, zones=zones, **times), start=900) for seed in range(40, 52)
    ]
    return float(np.mean([run.usd for run in runs]))


def test_ours_is_no_dearer_than_the_best_of_the_others_where_its_model_is_right() -> None:
    others = [mean_usd(make, JOB, zones=1) for make in STRATEGIES[1:-1]]
    assert mean_usd(DeadlineAware, JOB, zones=1) <= min(others) * 1.01


def test_two_zones_are_cheaper_than_one() -> None:
    assert mean_usd(DeadlineAware, TWO_ZONES, zones=2) < 0.9 * mean_usd(DeadlineAware, JOB, zones=1)


def test_zone_that_keeps_its_spot_is_preferred() -> None:
    history = np.stack([np.tile([True, True, True, False], 300), np.ones(1200, dtype=bool)])
    history[0, -30:] = True
    situation = Situation(
        terms=TWO_ZONES, elapsed_s=0.0, done_s=0.0, current=NOTHING, pending_s=0.0, history=history
    )  # fmt: skip
    assert DeadlineAware().choose(situation) == Choice(held=Held.SPOT, zone=1)


def test_spot_is_left_alone_when_its_loss_would_make_the_job_late() -> None:
    situation = Situation(
        terms=JOB, elapsed_s=4 * HOUR - 900, done_s=0.0, current=NOTHING, pending_s=0.0,
        history=np.ones((1, 900), dtype=bool),
    )  # fmt: skip
    assert DeadlineAware().choose(situation) == ON_DEMAND


def test_rates_are_those_of_the_past() -> None:
    # Up for 20 ticks of 10 minutes, down for 10: a loss each 20 ticks of being up, a return each 10 of being down.
    seen = look_back(np.array([([True] * 20 + [False] * 10) * 100]), tick_s=600.0)
    assert seen.loss_per_h == (pytest.approx(6 / 20, rel=0.05),)
    assert seen.hop == 0.0
    assert seen.fresh_loss_per_h < 0.05
    assert seen.lasting_loss_per_h == pytest.approx(6 / 17, rel=0.05)
    assert seen.lasting_return_per_h == pytest.approx(6 / 7, rel=0.05)


def test_hop_is_the_share_of_losses_that_another_zone_catches() -> None:
    first, second = [True, True, False, False] * 200, [False, True, True, True] * 200
    assert look_back(np.array([first, second]), tick_s=600.0).hop > 0.6


def test_without_a_past_the_prior_stands() -> None:
    seen = look_back(np.ones((1, 1), dtype=bool), tick_s=600.0)
    assert seen.loss_per_h == (pytest.approx(1 / 12),)


def test_table_knows_that_spot_is_worth_having() -> None:
    seen = look_back(np.ones((1, 5000), dtype=bool), tick_s=600.0)
    table = build_table(seen, work_s=12 * HOUR, deadline_s=16 * HOUR, changeover_s=600.0, spot_share=1 / 3)

    def cost(row: int, **left: float) -> float:
        return table.cost_h(row, work_left_s=6 * HOUR, time_left_s=left["hours"] * HOUR)

    # Spot that is never lost costs a third of the hours that are left; a start costs its changeover on top.
    assert cost(SPOT_ROW + UP_LASTING, hours=10) == pytest.approx(2.0, rel=0.02)
    assert cost(NOTHING_ROW + UP_LASTING, hours=10) == pytest.approx(2.0 + 1 / 18, rel=0.02)
    assert cost(ON_DEMAND_ROW + UP_LASTING, hours=10) < 6.0
    # No time is left for anything else than on demand, and less than nothing for all of it.
    assert cost(ON_DEMAND_ROW + UP_LASTING, hours=3) > 6.0
