"""Whether to give up capacity that runs, for cheaper or safer one. Pure.

Capacity cannot be seen without renting it, and two leases of a group never live side by side: what is held is given up
first, at a checkpoint, and what comes next is tried then. So a move is a bet, and it is made only where losing it
leaves time for a start on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from include.compute.capacity_choice.changeover import LOSSES_PER_H, changeover_s, restore_s, usd_per_h
from include.compute.capacity_choice.choice import ON_DEMAND, SPOT, slack_s
from include.compute.capacity_choice.ordering import open_now, spot_in_order
from include.compute.capacity_choice.pools import chance_open
from include.compute.capacity_choice.question import PoolEvent, Question, Strategy
from include.compute.capacity_choice.strategies import kind_of
from include.core.contracts.lease import LaunchCandidate

# Between two looks at whether on demand can be left for spot.
LOOK_EVERY_S = 900.0
# A save that takes longer than this is lost when a notice comes: EC2 gives 120 s, of which a job gets at most these.
NOTICE_GRACE_S = 90.0
# Chance that capacity with a rebalance recommendation is taken away soon. EC2 publishes none; stated.
RECLAIM_AFTER_REBALANCE = 0.5
_HOUR_S = 3600.0


def look_again_s(question: Question) -> float | None:
    """Seconds until the next look, None where the strategy never leaves what is held."""
    leaves = question.terms.strategy in {Strategy.UNIFORM_PROGRESS, Strategy.DEADLINE_AWARE}
    held = question.has_deadline and question.held == ON_DEMAND
    return LOOK_EVERY_S if leaves and held and _spot(question) else None


def leave_on_demand(question: Question) -> str:
    """Why capacity on demand is given up for spot now; empty to stay."""
    if look_again_s(question) is None or not _can_lose(question):
        return ""
    spot = _spot(question)
    ready = open_now(question, spot)
    if not ready or kind_of(question, spot, [candidate in ready for candidate in spot]) != SPOT:
        return ""
    best = ready[0]
    steady, cheap = _steady_usd_per_h(question), usd_per_h(best, instances=question.terms.instances)
    if steady is None or cheap is None:
        return ""
    chance = chance_open(best, question.past)
    start_h = (question.terms.start_s + restore_s(question.terms, best)) / _HOUR_S
    lasts_h = min(question.work_left_s / _HOUR_S, spot_lasts_h(question.past))
    saved = chance * float(steady - cheap) * lasts_h
    # A bet that is lost costs a start on demand; one that is won costs a start on spot, and one on demand after it.
    risked = start_h * (float(steady) + chance * float(cheap))
    if saved <= risked:
        return ""
    return (
        f"on demand is left for spot: {best.instance_type} may be had at a chance of {chance:.0%} for {lasts_h:.1f} h, "
        f"which saves {saved:.2f} USD on average against {risked:.2f} USD for starts"
    )


def spot_lasts_h(past: Sequence[PoolEvent]) -> float:
    """Mean hours that spot capacity lasts: to begin with that of the traces, which weighs as much as one own loss."""
    hours, losses = 1 / LOSSES_PER_H, 1
    since: float | None = None
    for event in past:
        if event.what == "had":
            since = event.at_s if event.purchase == SPOT else None
        elif since is not None and event.what in {"lost", "left"}:
            hours, losses, since = hours + (event.at_s - since) / _HOUR_S, losses + (event.what == "lost"), None
    return hours / losses


def leave_on_rebalance(question: Question) -> str:
    """Why spot with a rebalance recommendation is given up before it is taken away; empty to stay.

    A move costs a start now. Staying costs, with some chance, a start and whatever a notice leaves no time to save. So
    it pays where a save does not fit into a notice, and another pool may be had.
    """
    terms = question.terms
    start_s = terms.start_s + restore_s(terms, None)
    lost_s = terms.interval_s / 2 if terms.save_s > NOTICE_GRACE_S else 0.0
    pays = RECLAIM_AFTER_REBALANCE * (start_s + lost_s) > start_s and question.work_left_s > start_s
    if not pays or not _can_lose(question) or not open_now(question, _spot(question)):
        return ""
    return (
        f"rebalance recommended: a save of {terms.save_s:.0f} s does not fit into a notice, which would lose "
        f"{lost_s:.0f} s of work; a new start costs {start_s:.0f} s"
    )


def _spot(question: Question) -> list[LaunchCandidate]:
    return spot_in_order(question, question.candidates)


def _can_lose(question: Question) -> bool:
    """Whether a move that fails, and a loss after it, leave time for on demand."""
    return slack_s(question) >= changeover_s(question.terms)


def _steady_usd_per_h(question: Question) -> Decimal | None:
    prices = [
        price
        for candidate in question.candidates
        if candidate.purchase == ON_DEMAND
        and (price := usd_per_h(candidate, instances=question.terms.instances)) is not None
    ]
    return min(prices, default=None)
