"""What is wrong with a price: zero, of the future, old. Such a price is refused or flagged, never used in silence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal, InvalidOperation

from include.config.settings import Settings
from include.core.contracts.offer import Offer, Price, PurchaseOption

# A list that was read in another time zone may be a day ahead.
_DAYS_AHEAD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Staleness:
    """Ages in days from which a price counts as old, by how fast such prices move.

    Attributes:
        listed: For on-demand, reserved and own prices.
        spot: For spot prices.
    """

    listed: int
    spot: int

    @classmethod
    def of(cls, settings: Settings) -> Staleness:
        """The thresholds of an installation."""
        return cls(listed=settings.price_stale_after_days, spot=settings.spot_price_stale_after_days)


def age_days(price: Price, today: date) -> int:
    """Age of a price in days; a saving computed from an old price has to say so."""
    return (today - date.fromisoformat(price.as_of)).days


def refusal_of(price: Price, *, today: date) -> str | None:
    """Why a price may not be used at all, None where it may."""
    try:
        usd = Decimal(price.usd_per_h)
    except InvalidOperation:
        return f"price {price.usd_per_h!r} is no number"
    if not usd.is_finite() or usd <= 0:
        return f"price {price.usd_per_h} is not positive"
    if age_days(price, today) < -_DAYS_AHEAD:
        return f"price is dated {price.as_of}, after {today.isoformat()}"
    return None


def with_price_checked(offer: Offer, *, today: date, staleness: Staleness) -> Offer:
    """The offer without a price that may not be used, and with a flag for what a reader has to know of its price."""
    if offer.price is None:
        return replace(offer, flags=(*offer.flags, "no price"))
    if refusal := refusal_of(offer.price, today=today):
        return replace(offer, price=None, flags=(*offer.flags, f"price refused: {refusal}"))
    age = age_days(offer.price, today)
    limit = staleness.spot if offer.purchase is PurchaseOption.SPOT else staleness.listed
    if age <= limit:
        return offer
    return replace(offer, flags=(*offer.flags, f"stale price: {age} days old, stale after {limit}"))
