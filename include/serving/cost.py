"""What a measured rate costs."""

from __future__ import annotations

from decimal import Decimal

_SECONDS_PER_HOUR = 3600


def cost_per_1000(*, usd_per_h: Decimal | None, rate_per_s: float | None) -> Decimal | None:
    """US dollars per 1,000 inferences of a box that runs at a rate all the time.

    The formula is ``usd_per_h / (3600 * rate) * 1000``. At the highest rate that meets the objective it is a floor:
    a box that idles half of the time costs twice as much per inference.

    Args:
        usd_per_h: Price of the box; None where it is unknown.
        rate_per_s: Inferences per second; None where none was sustained.

    Returns:
        None where price or rate is unknown.

    Raises:
        ValueError: The price is negative or the rate not positive.

    >>> cost_per_1000(usd_per_h=Decimal("0.36"), rate_per_s=100)
    Decimal('0.001')
    """
    if usd_per_h is None or rate_per_s is None:
        return None
    if usd_per_h < 0 or not rate_per_s > 0:
        raise ValueError(f"price {usd_per_h} USD/h and rate {rate_per_s}/s make no cost")
    return usd_per_h * 1000 / (_SECONDS_PER_HOUR * Decimal(str(rate_per_s)))
