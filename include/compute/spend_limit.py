"""What a lease may spend by its agent's own account, and when it has spent it."""

from __future__ import annotations

import logging
from decimal import Decimal

_log = logging.getLogger("plimsoll.agent")
_HOUR_S = Decimal(3600)


class SpendLimit:
    """Turns a limit in US dollars into an age of the lease.

    Args:
        limit_usd: What the lease may spend, as a decimal string, None for no limit.
        usd_per_h: Price of the whole lease, None where unknown: then no limit can be held, which is said once.
    """

    def __init__(self, *, limit_usd: str | None, usd_per_h: Decimal | None) -> None:
        self._limit_usd = None if limit_usd is None else Decimal(limit_usd)
        self._usd_per_h = usd_per_h
        self._said = False
        self.crossed_at_s: float | None = None
        if self._limit_usd is None:
            return
        if usd_per_h is None:
            _log.warning("the price is unknown, so nothing holds the lease to its limit of %s USD", limit_usd)
        elif usd_per_h > 0:
            self.crossed_at_s = float(self._limit_usd / usd_per_h * _HOUR_S)

    def reached(self, age_s: float) -> bool:
        """Whether a lease of that age has spent its limit; the first time it has, that is logged."""
        if self.crossed_at_s is None or age_s < self.crossed_at_s:
            return False
        if not self._said:
            self._said = True
            late_s = age_s - self.crossed_at_s
            _log.info("the limit of %s USD was spent %.2f s ago", self._limit_usd, late_s)
        return True

    def overspend(self, age_s: float) -> tuple[float, Decimal] | None:
        """Seconds and US dollars that a lease which ends now has gone on beyond its limit; None where it has not."""
        if self.crossed_at_s is None or self._usd_per_h is None or age_s < self.crossed_at_s:
            return None
        over_s = age_s - self.crossed_at_s
        return over_s, (self._usd_per_h * Decimal(repr(over_s)) / _HOUR_S).quantize(Decimal("0.000001"))
