"""What is tried next: order, strategies, waits; and in a world where on demand can be had, nothing is ever late."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.compute.capacity_choice.choice import choose_capacity, slack_s
from include.compute.capacity_choice.moving import leave_on_demand, leave_on_rebalance, look_again_s
from include.compute.capacity_choice.question import PoolEvent, Question, Strategy
from tests.support.spot_world import HOUR_S, ON_DEMAND, POOLS, Job, SpotWorld, candidate, terms

A, B, C = POOLS
EVERY = (*POOLS, ON_DEMAND)
OTHER = candidate("g5.xlarge", zone="us-east-1a")
BOUND = (Strategy.GREEDY, Strategy.UNIFORM_PROGRESS, Strategy.DEADLINE_AWARE)


def ask(strategy: Strategy = Strategy.GREEDY, *, work_h: float = 10, deadline_h: float | None = None, **fields: Any):
    values = {"candidates": EVERY, "now_s": 0.0, "started_s": 0.0, **fields}
    return Question(terms=terms(strategy, work_h=work_h, deadline_h=deadline_h), **values)


def event(what: str, pool: Any, at_s: float = 0.0) -> PoolEvent:
    return PoolEvent(
        at_s=at_s, what=what, instance_type=pool.instance_type, purchase=pool.purchase, region=pool.region,
        zone=pool.zone,
    )  # fmt: skip


class TestOrder:
    def test_without_a_deadline_all_spot_then_on_demand(self):
        assert choose_capacity(ask()).candidates == EVERY

    def test_same_type_in_another_zone_before_the_next_offer(self):
        question = ask(candidates=(A, OTHER, B, ON_DEMAND), past=(event("lost", A),), now_s=10.0)
        assert choose_capacity(question).candidates == (B, OTHER, A, ON_DEMAND)

    def test_zones_are_drawn_together_behind_the_first_of_their_type(self):
        assert choose_capacity(ask(candidates=(A, OTHER, B))).candidates == (A, B, OTHER)

    def test_a_loss_is_forgotten_after_a_while(self):
        question = ask(past=(event("lost", A),), now_s=3 * HOUR_S)
        assert choose_capacity(question).candidates == EVERY

    def test_what_was_refused_is_left_out_for_longer_each_time(self):
        once = ask(past=(event("refused", A),), now_s=100.0)
        assert choose_capacity(once).candidates == (B, C, ON_DEMAND)
        assert A in choose_capacity(replace(once, now_s=130.0)).candidates
        twice = replace(once, past=(event("refused", A), event("refused", A, 130.0)))
        assert A not in choose_capacity(replace(twice, now_s=300.0)).candidates
        assert A in choose_capacity(replace(twice, now_s=371.0)).candidates

    def test_one_zone_that_refuses_says_nothing_of_a_candidate_of_any_zone(self):
        anywhere = candidate()
        question = ask(candidates=(anywhere,), past=(event("refused", A),), now_s=10.0)
        assert choose_capacity(question).candidates == (anywhere,)

    def test_what_the_budget_cannot_pay_to_the_end_is_left_out(self):
        question = ask(usd_left=Decimal(5))
        assert choose_capacity(question).candidates == POOLS

    def test_a_checkpoint_from_another_region_counts(self):
        near, far = candidate(purchase="on-demand"), candidate(purchase="on-demand", usd="0.999", region="us-west-2")
        short = ask(candidates=(far, near), work_h=0.1)
        large = replace(short.terms, checkpoint_bytes=10**11, home_region="us-east-1")
        assert choose_capacity(short).candidates == (far, near)
        assert choose_capacity(replace(short, terms=large)).candidates == (near, far)


class TestStrategies:
    def test_on_demand_is_on_demand(self):
        assert choose_capacity(ask(Strategy.ON_DEMAND)).candidates == (ON_DEMAND,)

    def test_spot_alone_waits_for_the_first_pool_that_is_asked_again(self):
        past = (event("refused", A, 0.0), event("refused", B, 30.0))
        move = choose_capacity(ask(candidates=(A, B), past=past, now_s=40.0))
        assert move.wait_s == pytest.approx(80.0)
        assert "not allowed" in move.why

    @pytest.mark.parametrize("strategy", BOUND)
    def test_no_slack_means_on_demand_first(self, strategy: Strategy):
        move = choose_capacity(ask(strategy, deadline_h=10.3))
        assert move.candidates[0] == ON_DEMAND
        assert "the slack is used up" in move.why

    @pytest.mark.parametrize("strategy", BOUND)
    def test_slack_means_spot_first(self, strategy: Strategy):
        assert choose_capacity(ask(strategy, deadline_h=20)).candidates[0] == A

    @pytest.mark.parametrize("strategy", BOUND)
    @pytest.mark.parametrize("work_h", [0.0005, 0.005, 0.05, 0.5])
    @pytest.mark.parametrize("deadline_h", [1, 6, 48])
    def test_spot_that_may_be_had_is_not_waited_for_however_short_the_work(
        self, strategy: Strategy, work_h: float, deadline_h: float
    ):
        move = choose_capacity(ask(strategy, work_h=work_h, deadline_h=deadline_h))
        assert move.candidates, move.why

    def test_greedy_waits_for_spot_but_never_beyond_the_moment_for_on_demand(self):
        past = tuple(event("refused", pool, at) for pool in POOLS for at in range(0, 600, 60))
        question = ask(deadline_h=11, past=past, now_s=600.0)
        move = choose_capacity(question)
        assert 0 < move.wait_s <= slack_s(question)

    def test_one_more_loss_than_allowed_is_not_risked(self):
        move = choose_capacity(ask(preemptions_left=0))
        assert move.candidates == (ON_DEMAND,)
        assert "preemption budget" in move.why

    def test_a_group_that_has_waited_long_enough_takes_on_demand(self):
        move = choose_capacity(ask(deadline_h=100, wait_left_s=0.0))
        assert move.candidates[0] == ON_DEMAND

    def test_a_deadline_that_cannot_be_met_is_told(self):
        assert "still late" in choose_capacity(ask(deadline_h=5)).why

    @pytest.mark.parametrize("strategy", tuple(Strategy))
    def test_every_answer_says_why(self, strategy: Strategy):
        assert strategy.value in choose_capacity(ask(strategy, deadline_h=20)).why


HELD: dict[str, Any] = {"held": "on-demand", "now_s": 5 * HOUR_S}


class TestMoves:
    def test_greedy_never_leaves_on_demand(self):
        assert look_again_s(ask(deadline_h=30, **HELD)) is None

    def test_deadline_aware_leaves_on_demand_where_that_pays(self):
        question = ask(Strategy.DEADLINE_AWARE, deadline_h=30, done=0.3, **HELD)
        assert look_again_s(question) is not None
        assert "saves" in leave_on_demand(question)

    def test_nothing_is_bet_that_time_cannot_afford(self):
        question = ask(Strategy.DEADLINE_AWARE, deadline_h=12.3, done=0.3, **HELD)
        assert leave_on_demand(question) == ""

    def test_nothing_is_bet_on_the_last_minutes(self):
        question = ask(Strategy.DEADLINE_AWARE, deadline_h=30, done=0.995, **HELD)
        assert leave_on_demand(question) == ""

    def test_a_rebalance_is_followed_where_a_save_does_not_fit_into_a_notice(self):
        question = ask(deadline_h=30, held="spot")
        assert leave_on_rebalance(question) == ""
        slow = replace(question.terms, save_s=300.0, interval_s=3600.0)
        assert "does not fit into a notice" in leave_on_rebalance(replace(question, terms=slow))


class TestWorld:
    """Work of ten hours in a world of three pools."""

    @pytest.mark.parametrize("strategy", [Strategy.GREEDY, Strategy.UNIFORM_PROGRESS])
    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 10**6),
        deadline_h=st.floats(10.25, 30),
        up_h=st.floats(0.2, 20),
        down_h=st.floats(0.2, 20),
        notice=st.floats(0, 1),
    )
    def test_never_late(
        self, strategy: Strategy, seed: int, deadline_h: float, up_h: float, down_h: float, notice: float
    ):
        world = SpotWorld(seed, up_h=up_h, down_h=down_h, notice=notice)
        job = Job(world=world, terms=terms(strategy, work_h=10, deadline_h=deadline_h), candidates=EVERY).live()
        assert not job.late

    @pytest.mark.parametrize("seed", range(4))
    def test_deadline_aware_is_never_late(self, seed: int):
        job = Job(
            world=SpotWorld(seed, up_h=3, down_h=3, notice=0.3),
            terms=terms(Strategy.DEADLINE_AWARE, work_h=4, deadline_h=4.6 + seed / 4),
            candidates=EVERY,
        ).live()
        assert not job.late

    @pytest.mark.parametrize("strategy", [Strategy.GREEDY, Strategy.UNIFORM_PROGRESS])
    def test_a_looser_deadline_costs_no_more_on_average(self, strategy: Strategy):
        means = [self.mean_usd(strategy, deadline_h) for deadline_h in (10.3, 11, 13, 17, 25)]
        assert all(looser <= tighter * 1.01 for tighter, looser in itertools.pairwise(means))
        assert means[-1] < 0.5 * means[0]

    def test_spot_is_cheaper_than_on_demand(self):
        on_demand = self.mean_usd(Strategy.ON_DEMAND, 14)
        assert all(self.mean_usd(strategy, 14) < 0.6 * on_demand for strategy in BOUND[:2])

    @staticmethod
    def mean_usd(strategy: Strategy, deadline_h: float) -> float:
        jobs = [
            Job(
                world=SpotWorld(seed, up_h=4, down_h=4, notice=0.7),
                terms=terms(strategy, work_h=10, deadline_h=deadline_h),
                candidates=EVERY,
            ).live()
            for seed in range(60)
        ]
        return sum(job.usd for job in jobs) / len(jobs)
