"""What a provider bills for the instances of a lease. Pure.

EC2 bills Linux instances per second, from running until they begin to shut down or to stop, and at least 60 seconds
each (Amazon EC2 On-Demand Pricing: "pricing is per second for Linux, with a minimum of 60 seconds"); spot instances at
the spot price in the same way. An hour that EC2 interrupts is taken as billed: that a first hour may be free then is no
rule for every system and time, and is not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from include.core.contracts.lease import BilledTime

MINIMUM_S = 60.0
# Finer than any price list, and as fine as the ledger's columns.
_PLACES = Decimal("1e-8")
_US_PER_H = Decimal(3_600_000_000)
_US_PER_S = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The sum over the instances of a lease.

    Attributes:
        seconds: Billed seconds of all instances together.
        usd: What they cost, None where the price of one is unknown.
        started_at: When the first of them began to be billed.
        ended_at: When the last of them ceased to be.
        method: How the cost came about.
    """

    seconds: float
    usd: Decimal | None
    started_at: datetime
    ended_at: datetime
    method: str


def bill_of(billed: Sequence[BilledTime], *, usd_per_h: str | None, until: datetime) -> Bill | None:
    """Add up what the instances are billed for.

    Args:
        billed: Billed time of each instance; empty: nobody says, and None is returned.
        usd_per_h: Price of one instance where its own is not known.
        until: End of what has no end yet.
    """
    if not billed:
        return None
    starts = [datetime.fromisoformat(one.started_at) for one in billed]
    ends = [datetime.fromisoformat(one.ended_at) if one.ended_at else until for one in billed]
    microseconds = [_microseconds(start, end) for start, end in zip(starts, ends, strict=True)]
    prices = [one.usd_per_h or usd_per_h for one in billed]
    usd = _cost(microseconds, prices)
    how = f"estimated: price per hour x billed seconds of {len(billed)} instances, at least {MINIMUM_S:g} s each"
    return Bill(
        seconds=sum(microseconds) / _US_PER_S,
        usd=usd,
        started_at=min(starts),
        ended_at=max(ends),
        method="unknown: no price was known at launch" if usd is None else how,
    )


def _microseconds(start: datetime, end: datetime) -> int:
    """Exact: times have whole microseconds."""
    took = end - start
    whole = (took.days * 86_400 + took.seconds) * _US_PER_S + took.microseconds
    return max(whole, int(MINIMUM_S * _US_PER_S))


def _cost(microseconds: Sequence[int], prices: Sequence[str | None]) -> Decimal | None:
    total = Decimal(0)
    for time, price in zip(microseconds, prices, strict=True):
        if price is None:
            return None
        total += Decimal(price) * time / _US_PER_H
    return total.quantize(_PLACES)
