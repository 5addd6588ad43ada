"""What an attempt took, from the telemetry of its workers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from include.core.contracts.measured import Measured
from include.training.telemetry.facts import RankTelemetry


def measured_of(ranks: Sequence[RankTelemetry]) -> Measured | None:
    """Steps of the first worker and the largest peak of any; None without telemetry."""
    if not ranks:
        return None
    first = min(ranks, key=lambda rank: rank.rank)
    return Measured(
        steps=first.steps.steps if first.steps else 0,
        step_s=first.steps.step_p50_s if first.steps else None,
        device=first.machine.device,
        peak_device_bytes=_largest(rank.machine.device_peak_bytes for rank in ranks),
        device_memory_bytes=_largest(rank.machine.device_memory_bytes for rank in ranks),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
