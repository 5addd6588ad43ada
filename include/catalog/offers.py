"""Everything that can be had: the bundled list, what the last refresh found, and the user's own machines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from include.catalog.freshness import Staleness, with_price_checked
from include.catalog.loader import load_catalog
from include.config.settings import Settings
from include.core.contracts.offer import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferList:
    """Offers, and what a reader has to know about where they come from.

    Attributes:
        offers: Every type x region or zone x purchase option, with or without a price.
        notes: One sentence per thing that is missing or old.
    """

    offers: tuple[Offer, ...]
    notes: tuple[str, ...]


def load_offers(settings: Settings, *, today: date) -> OfferList:
    """All offers but this machine's, which its engine makes.

    Args:
        settings: From which age a price is old.
        today: Date against which prices are old.
    """
    staleness = Staleness.of(settings)
    offers = tuple(with_price_checked(offer, today=today, staleness=staleness) for offer in load_catalog())
    return OfferList(offers=offers, notes=_notes(offers))


def _notes(offers: tuple[Offer, ...]) -> tuple[str, ...]:
    stale = sum(any(flag.startswith("stale") for flag in offer.flags) for offer in offers)
    priced = sum(offer.price is not None for offer in offers)
    return (f"{stale} of {priced} prices are stale",) if stale else ()
