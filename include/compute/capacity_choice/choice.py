"""Which candidates to try now, or how long to wait, with one sentence why. Pure.

Deadline before price: what on demand could still finish in time is never risked. Then the budget, then the strategy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from include.compute.capacity_choice.changeover import changeover_s
from include.compute.capacity_choice.ordering import (
    affordable,
    open_now,
    reopens_in_s,
    spot_in_order,
    steady_in_order,
)
from include.compute.capacity_choice.pools import REFUSED_FOR_S
from include.compute.capacity_choice.question import Move, Question, Strategy, is_spot
from include.compute.capacity_choice.strategies import kind_of, tick_of
from include.core.contracts.lease import LaunchCandidate
from include.core.contracts.offer import PurchaseOption

SPOT, ON_DEMAND = PurchaseOption.SPOT.value, PurchaseOption.ON_DEMAND.value


def choose_capacity(question: Question) -> Move:
    """Choose for a group that holds nothing.

    Args:
        question: What is known. Without candidates nothing can be chosen.

    Returns:
        Candidates in the order in which to try them, or the seconds to wait.
    """
    offered = affordable(question)
    spot, steady = spot_in_order(question, offered), steady_in_order(question, offered)
    if forced := _forced(question, spot, steady):
        return forced
    ready = open_now(question, spot)
    if not question.has_deadline:
        return _without_deadline(question, spot, ready, steady)
    return _by_strategy(question, spot, ready, steady)


def _forced(question: Question, spot: list[LaunchCandidate], steady: list[LaunchCandidate]) -> Move | None:
    """What leaves nothing to the strategy."""
    terms = question.terms
    if not steady or not spot:
        return None if steady or spot else Move(wait_s=REFUSED_FOR_S, why="there is no candidate")
    if terms.strategy is Strategy.ON_DEMAND:
        return _ask(question, steady, f"{terms.strategy}, {terms.chosen_by}")
    if question.preemptions_left <= 0:
        return _ask(question, steady, "one more loss would exceed the preemption budget: on demand")
    if question.wait_left_s <= 0:
        return _ask(question, [*steady, *spot], "waited for spot as long as a group may (capacity_wait_s): on demand")
    return None


def _without_deadline(
    question: Question, spot: list[LaunchCandidate], ready: list[LaunchCandidate], steady: list[LaunchCandidate]
) -> Move:
    """Nothing is in a hurry: all spot in order, then on demand where the workload allows it."""
    why = f"{question.terms.strategy}, {question.terms.chosen_by}: no deadline"
    if ready:
        return Move(candidates=(*ready, *steady), why=f"{why}, spot first" + (", then on demand" if steady else ""))
    if steady:
        return _ask(question, steady, f"{why}; all spot was refused lately, so on demand")
    return _wait(question, spot, f"{why}; all spot was refused lately and on demand is not allowed")


def _by_strategy(
    question: Question, spot: list[LaunchCandidate], ready: list[LaunchCandidate], steady: list[LaunchCandidate]
) -> Move:
    said = f"{question.terms.strategy}, {question.terms.chosen_by}"
    left = f"{question.work_left_s / 60:.0f} min of work in {max(question.time_left_s, 0) / 60:.0f} min"
    if not steady:
        return (
            Move(candidates=tuple(ready), why=f"{said}: {left}, spot alone is allowed")
            if ready
            else _wait(question, spot, f"{said}: {left}, all spot was refused lately and on demand is not allowed")
        )
    # Without slack spot would not be started, whatever came of waiting.
    no_slack = slack_s(question) < 0
    chosen = ON_DEMAND if no_slack else kind_of(question, spot, [candidate in ready for candidate in spot])
    if chosen == ON_DEMAND:
        # Where on demand has nothing either, spot that may be lost is still better than nothing.
        return _ask(question, [*steady, *spot], f"{said}: {left}, on demand{_net(question)}")
    if chosen == SPOT or (not chosen and ready):
        # A pool that can be had is not waited for: a strategy that looks at whole ticks may value the start of a job
        # that lasts a few seconds at more than the job.
        without = kind_of(question, spot, [False] * len(spot))
        then = tuple(open_now(question, steady)) if without == ON_DEMAND else ()
        return Move(candidates=(*ready, *then), why=f"{said}: {left}, spot{', then on demand' if then else ''}")
    return _wait(question, spot, f"{said}: {left}, wait for spot")


def _ask(question: Question, candidates: Sequence[LaunchCandidate], why: str) -> Move:
    """Try those that were not refused lately; wait where all were."""
    ready = open_now(question, candidates)
    return Move(candidates=tuple(ready), why=why) if ready else _wait(question, candidates, f"{why}; refused lately")


def _wait(question: Question, candidates: Sequence[LaunchCandidate], why: str) -> Move:
    """Until the first of them is asked again, but never beyond the moment from which on demand is needed."""
    tick_s = tick_of(question)
    wait_s = reopens_in_s(question, candidates) or tick_s
    if any(not is_spot(candidate) for candidate in question.candidates):
        wait_s = min(wait_s, max(slack_s(question), tick_s))
    return Move(wait_s=max(wait_s, 1.0), why=why)


def slack_s(question: Question) -> float:
    """Seconds until one more loss could make the work late: two changeovers and one tick before on demand is needed."""
    if math.isinf(question.time_left_s):
        return math.inf
    return question.time_left_s - question.work_left_s - 2 * changeover_s(question.terms) - tick_of(question)


def _net(question: Question) -> str:
    if question.time_left_s < question.work_left_s + changeover_s(question.terms):
        return ", and still late"
    return ": the slack is used up" if slack_s(question) < 0 else ""
