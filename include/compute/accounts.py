"""What a lease and its jobs have used and cost so far."""

from __future__ import annotations

import os
from decimal import Decimal

from include.carbon.meter import EnergyMeter, MeterMode, open_meter
from include.compute.process_usage import TreeUsage
from include.core.contracts.lease import LaunchRequest
from include.core.contracts.usage import Usage

_HOUR_S = Decimal(3600)
_PLACES = Decimal("0.000000001")


def spend_usd(*, usd_per_h: str | None, seconds: float) -> str | None:
    """Price x time as a decimal string in US dollars, None where the price is unknown."""
    if usd_per_h is None:
        return None
    return str((Decimal(usd_per_h) * Decimal(repr(seconds)) / _HOUR_S).quantize(_PLACES))


class LeaseAccounts:
    """Turns seconds into money, energy and carbon at the terms of one lease.

    Args:
        usd_per_h: Price of the lease, None where unknown.
        meter: Energy meter of the agent.
    """

    def __init__(self, *, usd_per_h: str | None, meter: EnergyMeter) -> None:
        self._usd_per_h = usd_per_h
        self._meter = meter

    @classmethod
    def of(cls, spec: LaunchRequest, *, mode: MeterMode, shared_machine: bool) -> LeaseAccounts:
        """Accounts of a launched lease; the meter is not started yet."""
        meter = open_meter(
            mode=mode,
            idle_w=spec.idle_w,
            peak_w=spec.peak_w,
            cores=os.cpu_count() or 1,
            exclusive=not shared_machine,
            gco2e_per_kwh=spec.gco2e_per_kwh,
        )
        return cls(usd_per_h=spec.usd_per_h, meter=meter)

    def start(self) -> None:
        """Begin to measure."""
        self._meter.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._meter.stop()

    def spend(self, seconds: float) -> str | None:
        """Cost of so many seconds, as a decimal string."""
        return spend_usd(usd_per_h=self._usd_per_h, seconds=seconds)

    def usage(self, *, wall_s: float, tree: TreeUsage) -> Usage:
        """Usage of a job or of the whole lease. Figures of GPUs are None: no reader of GPU counters is built in."""
        return Usage(
            wall_s=round(wall_s, 3),
            cpu_s=round(tree.cpu_s, 3),
            max_rss_bytes=tree.max_rss_bytes,
            energy=self._meter.energy(cpu_s=tree.cpu_s, wall_s=wall_s),
        )
