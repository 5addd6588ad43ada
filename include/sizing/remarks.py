"""What to know of a plan: prices that reverse the usual order, old prices, the saving against an unsized choice."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from include.catalog.freshness import age_days
from include.core.contracts.offer import Offer, Price, PurchaseOption
from include.core.contracts.plan import Plan

_SHOWN = 3
# A share above this would be rounded to all.
_NEARLY_ALL = 0.999
# Prices older than this are named as old in the plan.
STALE_AFTER_DAYS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The plan beside the choice without sizing.

    Attributes:
        usd: US dollars that the plan costs less; negative where it costs more, by another objective than cost.
        share: The same as part of the unsized cost.
        text: Both prices with their dates, and how the figures came about.
    """

    usd: float
    share: float
    text: str


def saving_of(plan: Plan) -> Saving | None:
    """What sizing saves against the largest accelerator type on demand, None where a cost is unknown."""
    naive = plan.naive
    if naive is None or naive.prediction is None or naive.prediction.usd is None or plan.prediction.usd is None:
        return None
    before, after = naive.prediction.usd, plan.prediction.usd
    if naive.offer.price is None or plan.offer.price is None or before <= 0:
        return None
    share = (before - after) / before
    return Saving(
        usd=before - after,
        share=share,
        text=(
            f"{abs(before - after):.4g} USD {'less' if after <= before else 'more'} ({share_text(share)}) than "
            f"{naive.offer.name}: {after:.4g} USD at "
            f"{_terms(plan.offer.price)} against {before:.4g} USD at {_terms(naive.offer.price)}; "
            "both costs are predicted times x price, not measured"
        ),
    )


def share_text(share: float) -> str:
    """Part of a cost that is saved or added, in percent; never all of one of which something is left.

    >>> share_text(0.99996)
    '> 99.9 %'
    """
    size = abs(share)
    return "> 99.9 %" if _NEARLY_ALL < size < 1 else f"{size:.1%}"


def old_price(offer: Offer, today: date) -> str:
    """A clause for the rule when the price of an offer is unknown or old, else nothing."""
    if offer.price is None:
        return "; its price is unknown"
    age = age_days(offer.price, today)
    return f"; its price is {age} days old" if age > STALE_AFTER_DAYS else ""


def reversed_prices(offers: Iterable[Offer], chosen: Offer, *, precision: str) -> tuple[str, ...]:
    """Where an accelerator costs no more per hour than one that it beats in everything, at the dates of the prices.

    The usual order is that the better accelerator costs more per hour. Compared are on-demand prices per accelerator,
    each where it is cheapest, in pairs with the chosen accelerator.
    """
    cheapest = _per_accelerator(offers)
    pairs = []
    for low in cheapest:
        for high in cheapest:
            gap = _price(low) - _price(high)
            concerned = low is not high and chosen.accelerator in (low.accelerator, high.accelerator)
            if concerned and gap >= 0 and _beats(high, low, precision):
                pairs.append((-gap, low, high))
    pairs.sort(key=lambda item: (item[0], item[1].name, item[2].name))
    return tuple(_reversal(low, high) for _, low, high in pairs[:_SHOWN])


def _per_accelerator(offers: Iterable[Offer]) -> list[Offer]:
    """The cheapest on-demand offer of each accelerator, by price per accelerator."""
    found: dict[str, Offer] = {}
    for offer in offers:
        if offer.accelerator is None or offer.price is None or offer.purchase is not PurchaseOption.ON_DEMAND:
            continue
        if offer.mig_profile is not None:
            continue
        best = found.get(offer.accelerator)
        if best is None or (_price(offer), offer.name) < (_price(best), best.name):
            found[offer.accelerator] = offer
    return sorted(found.values(), key=lambda offer: offer.name)


def _price(offer: Offer) -> float:
    assert offer.price is not None
    return float(Decimal(offer.price.usd_per_h)) / offer.accelerators


def _beats(high: Offer, low: Offer, precision: str) -> bool:
    pairs = (
        (high.accelerator_memory_bytes, low.accelerator_memory_bytes),
        (high.accelerator_tflops.get(precision), low.accelerator_tflops.get(precision)),
        (high.memory_bandwidth_bytes_per_s, low.memory_bandwidth_bytes_per_s),
    )
    figures = [(better or math.nan, worse or math.nan) for better, worse in pairs]
    return all(a >= b for a, b in figures) and any(a > b for a, b in figures)


def _reversal(low: Offer, high: Offer) -> str:
    assert low.price is not None
    assert high.price is not None
    return (
        f"prices reverse the usual order: {high.accelerator} costs {_price(high):.4g} USD per hour and accelerator "
        f"({high.name}, as of {high.price.as_of}), no more than the lesser {low.accelerator} at {_price(low):.4g} "
        f"({low.name}, as of {low.price.as_of})"
    )


def _terms(price: Price) -> str:
    return f"{price.usd_per_h} USD/h as of {price.as_of} ({price.method})"
