"""What a lease and its jobs have used and cost so far."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from include.carbon.meter import EnergyMeter, MeterMode, open_meter
from include.compute.imds_client import Instance
from include.compute.launched_candidate import launched_candidate
from include.compute.process_usage import TreeUsage
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.contracts.usage import Energy, Usage

_HOUR_S = Decimal(3600)
_PLACES = Decimal("0.000000001")


def spend_usd(*, usd_per_h: str | None, seconds: float) -> str | None:
    """Price x time as a decimal string in US dollars, None where the price is unknown."""
    if usd_per_h is None:
        return None
    return str((Decimal(usd_per_h) * Decimal(repr(seconds)) / _HOUR_S).quantize(_PLACES))


def as_launched(spec: LaunchRequest, instance: Instance) -> LaunchRequest:
    """The spec with type, purchase, price and powers of the candidate that was launched.

    What the instance says of itself decides. A candidate of its own zone goes before one of any zone; without a
    candidate that fits, price and powers are unknown. A spec without candidates holds as it is.
    """
    if not spec.candidates:
        return spec
    candidate = launched_candidate(
        spec.candidates,
        instance_type=instance.instance_type,
        spot=instance.life_cycle == "spot",
        region=instance.region,
        zone=instance.zone,
    ) or LaunchCandidate(
        instance_type=instance.instance_type or "unknown", purchase=instance.life_cycle or "unknown", region=""
    )
    return replace(
        spec,
        instance_type=candidate.instance_type,
        purchase=candidate.purchase,
        usd_per_h=candidate.usd_per_h,
        idle_w=candidate.idle_w,
        peak_w=candidate.peak_w,
        gco2e_per_kwh=candidate.gco2e_per_kwh,
    )


class LeaseAccounts:
    """Turns seconds into money, energy and carbon at the terms of one lease.

    Args:
        usd_per_h: Price of one instance, None where unknown.
        meter: Energy meter of the agent.
        instances: Instances of the lease, all of one price.
    """

    def __init__(self, *, usd_per_h: str | None, meter: EnergyMeter, instances: int = 1) -> None:
        self.usd_per_h = None if usd_per_h is None else Decimal(usd_per_h) * instances
        self._meter = meter
        self._instances = instances

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
        return cls(usd_per_h=spec.usd_per_h, meter=meter, instances=spec.instances)

    def start(self) -> None:
        """Begin to measure."""
        self._meter.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._meter.stop()

    def spend(self, seconds: float) -> str | None:
        """Cost of so many seconds of the whole lease, as a decimal string."""
        return spend_usd(usd_per_h=None if self.usd_per_h is None else str(self.usd_per_h), seconds=seconds)

    def usage(self, *, wall_s: float, tree: TreeUsage) -> Usage:
        """Usage of a job or of the whole lease. Figures of GPUs are None: no reader of GPU counters is built in."""
        return Usage(
            wall_s=round(wall_s, 3),
            cpu_s=round(tree.cpu_s, 3),
            max_rss_bytes=tree.max_rss_bytes,
            energy=self._meter.energy(cpu_s=tree.cpu_s, wall_s=wall_s),
        )

    def whole(self, own: Usage, others: Sequence[Usage]) -> Usage:
        """Usage of all nodes, as far as the others have told theirs; energy is unknown until all of them have."""
        if self._instances == 1:
            return own
        parts = [own, *others]
        energies = [part.energy for part in parts] if len(parts) == self._instances else []
        return replace(
            own,
            cpu_s=round(sum(part.cpu_s for part in parts), 3),
            max_rss_bytes=max(part.max_rss_bytes for part in parts),
            energy=Energy(
                kwh=_sum([each.kwh for each in energies]),
                gco2e=_sum([each.gco2e for each in energies]),
                method=f"{own.energy.method}, summed over {len(parts)} of {self._instances} nodes",
            ),
        )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
