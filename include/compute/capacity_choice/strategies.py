"""Spot, on demand, or wait: the strategies of `include.compute.spot`, asked about a real group. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from include.compute.capacity_choice.changeover import changeover_s, usd_per_h
from include.compute.capacity_choice.pools import availability
from include.compute.capacity_choice.question import Question, Strategy, is_spot
from include.core.contracts.lease import LaunchCandidate
from include.core.contracts.offer import PurchaseOption

if TYPE_CHECKING:
    from include.compute.spot import situation

# Time between two looks: a share of the time to the deadline, within these bounds.
_LOOKS = 200
TICK_AT_LEAST_S = 5.0
TICK_AT_MOST_S = 300.0
# Price on spot over price on demand where one of them is unknown: what the traces were replayed with.
_SHARE = 0.35


def tick_of(question: Question) -> float:
    """Seconds between two looks."""
    return min(max(question.window_s / _LOOKS, TICK_AT_LEAST_S), TICK_AT_MOST_S)


def kind_of(question: Question, spot: Sequence[LaunchCandidate], open_now: Sequence[bool]) -> str:
    """What the strategy would hold now: a purchase option, or empty for nothing.

    Args:
        question: The choice, with a deadline and a predicted work.
        spot: Spot candidates.
        open_now: Whether each of them may be had now.
    """
    from include.compute.spot.situation import NOTHING, ON_DEMAND, Held  # noqa: PLC0415 - numpy, see pools.py

    if not spot:
        # Without spot there is nothing to wait for.
        return PurchaseOption.ON_DEMAND.value
    held = ON_DEMAND if question.held == PurchaseOption.ON_DEMAND.value else NOTHING
    choice = _strategy(question.terms.strategy).choose(_situation(question, spot, open_now, held))
    if choice.held is Held.SPOT:
        return PurchaseOption.SPOT.value
    return PurchaseOption.ON_DEMAND.value if choice.held is Held.ON_DEMAND else ""


def _strategy(name: Strategy) -> situation.Strategy:
    from include.compute.spot.deadline_aware import DeadlineAware  # noqa: PLC0415 - numpy, see pools.py
    from include.compute.spot.strategies import Greedy, UniformProgress  # noqa: PLC0415 - numpy, see pools.py

    if name is Strategy.GREEDY:
        return Greedy()
    if name is Strategy.UNIFORM_PROGRESS:
        # Whether spot can be had is seen only by giving up what is held, so leaving has to pay: hysteresis holds.
        return UniformProgress(spot_wins=False)
    return DeadlineAware()


def _situation(
    question: Question, spot: Sequence[LaunchCandidate], open_now: Sequence[bool], held: situation.Choice
) -> situation.Situation:
    from include.compute.spot.situation import Situation, Terms  # noqa: PLC0415 - numpy, see pools.py

    terms, tick_s = question.terms, tick_of(question)
    assert terms.work_s is not None
    on_demand, prices = _prices(question, spot)
    return Situation(
        terms=Terms(
            work_s=terms.work_s,
            deadline_s=question.window_s,
            changeover_s=changeover_s(terms),
            tick_s=tick_s,
            on_demand_usd_per_h=on_demand,
            spot_usd_per_h=prices,
        ),
        elapsed_s=max(question.now_s - question.started_s, 0.0),
        done_s=terms.work_s * question.done,
        current=held,
        pending_s=0.0,
        history=availability(spot, question, tick_s=tick_s, open_now=open_now),
    )


def _prices(question: Question, spot: Sequence[LaunchCandidate]) -> tuple[float, tuple[float, ...]]:
    """Prices of an hour on demand and in each spot pool; an unknown one from the known ones and a stated share."""
    one = question.terms.instances
    steady = [price for c in question.candidates if not is_spot(c) and (price := usd_per_h(c, instances=one))]
    known = [price for c in spot if (price := usd_per_h(c, instances=one))]
    share = Decimal(repr(_SHARE))
    on_demand = min(steady) if steady else (min(known) / share if known else Decimal(1))
    return float(on_demand), tuple(float(usd_per_h(c, instances=one) or on_demand * share) for c in spot)
