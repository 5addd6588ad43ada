"""The rule over the shape of a series: a device that works and rests by turns."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from include.core.contracts.diagnosis import Finding, Slowness
from include.training.diagnosis_evidence import Evidence, Missing, known, percent
from include.training.telemetry.facts import DRAM_ACTIVE, GPU_BUSY, GPU_POWER, SM_ACTIVE, TENSOR_ACTIVE, RankTelemetry
from include.training.telemetry.step_facts import quantile

# A second is low below a third of what the device reaches when it works.
LOW_SHARE_OF_HIGH = 0.35
LOWEST_LEVEL = 0.10
# More rest than this, more often than this: validation and checkpoints are rarer or shorter.
LOW_TIME = 0.15
DIPS_PER_MINUTE = 2.0
# A second witness must fall with the utilisation. Power keeps a floor of idle power, so it falls by less.
WITNESS_FALL = 0.6
_WITNESSES = (SM_ACTIVE, TENSOR_ACTIVE, DRAM_ACTIVE, GPU_POWER)
# A device that never works hard has no shape to speak of.
_LEAST_HIGH = 0.3
_FEWEST_SECONDS = 60.0
_CORRELATED = 0.3
_SAME_DISTANCE = 0.15


def scalloped(evidence: Evidence) -> Finding | Missing | None:
    """The device works and rests by turns, seen in two series at once."""
    rank = evidence.ranks[0]
    utilisation = rank.series.get(GPU_BUSY)
    if utilisation is None or len(utilisation.known) * utilisation.every_s < _FEWEST_SECONDS:
        return Missing(f"{_FEWEST_SECONDS:.0f} s of utilisation of a device")
    pairs = _pairs(rank)
    if pairs is None:
        return Missing("a second series of the device beside its utilisation")
    busy = _after_start([value for value, _ in pairs])
    witness = [value for _, value in pairs][-len(busy) :]
    low = _low(busy)
    minutes = len(busy) * utilisation.every_s / 60
    dips = sum(now and not before for before, now in itertools.pairwise(low)) / minutes
    share = sum(low) / len(low)
    if share < LOW_TIME or dips < DIPS_PER_MINUTE or not _falls_too(witness, low):
        return None
    return _finding(evidence, share=share, dips=dips, period_s=_period(busy, every_s=utilisation.every_s))


def _pairs(rank: RankTelemetry) -> list[tuple[float, float]] | None:
    """Utilisation and a second witness, second by second, where both are known."""
    busy = rank.series[GPU_BUSY].recent
    for name in _WITNESSES:
        if name in rank.series:
            other = rank.series[name].recent
            length = min(len(busy), len(other))
            both = zip(busy[-length:], other[-length:], strict=True)
            return [(one, two) for one, two in both if one is not None and two is not None] or None
    return None


def _after_start(values: Sequence[float]) -> list[float]:
    """Without the rest before the first work, in which a program loads and compiles."""
    high = quantile(values, 0.95) or 0.0
    begin = next((place for place, value in enumerate(values) if value >= high / 2), 0)
    return list(values[begin:])


def _low(values: Sequence[float]) -> list[bool]:
    high = quantile(values, 0.95) or 0.0
    if high < _LEAST_HIGH:
        return [False] * len(values)
    return [value < max(LOWEST_LEVEL, LOW_SHARE_OF_HIGH * high) for value in values]


def _falls_too(witness: Sequence[float], low: Sequence[bool]) -> bool:
    at_low = [value for value, is_low in zip(witness, low, strict=True) if is_low]
    else_ = [value for value, is_low in zip(witness, low, strict=True) if not is_low]
    return bool(at_low and else_) and statistics.fmean(at_low) < WITNESS_FALL * statistics.fmean(else_)


def _period(values: Sequence[float], *, every_s: float) -> float | None:
    """Distance of the first peak of the autocorrelation; None for dips without a rhythm."""
    middle = statistics.fmean(values)
    centred = [value - middle for value in values]
    power = sum(value * value for value in centred)
    if power == 0:
        return None
    lags = range(len(values) // 2)
    found = [sum(a * b for a, b in zip(centred, centred[lag:], strict=False)) / power for lag in lags]
    for lag in range(2, len(found) - 1):
        if found[lag - 1] < found[lag] >= found[lag + 1] and found[lag] > _CORRELATED:
            return lag * every_s
    return None


def _finding(evidence: Evidence, *, share: float, dips: float, period_s: float | None) -> Finding:
    every_s = evidence.machine.checkpoint_every_s
    numbers = known(low_share=share, dips_per_minute=dips, period_s=period_s, checkpoint_every_s=every_s)
    rhythm = f", every {period_s:.0f} s" if period_s else ""
    if period_s and every_s and abs(period_s - every_s) < _SAME_DISTANCE * every_s and evidence.share("save") is None:
        return Finding(
            kind=Slowness.SAVE_STALL,
            reason=f"the device rests {percent(share)} of the time{rhythm}, which is the distance of the checkpoints",
            fix="save less often, or in the background",
            evidence=numbers,
        )
    return Finding(
        kind=Slowness.SCALLOPED,
        reason=f"the device rests {percent(share)} of the time in {dips:.1f} dips a minute{rhythm}",
        fix="time the loop's waiting for data; more loader workers that keep running, more prefetch, a cache on a "
        "local SSD",
        evidence=numbers,
    )
