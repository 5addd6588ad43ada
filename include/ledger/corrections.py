"""What earlier runs teach the planner: medians of measured over predicted, from the ledger's prediction events.

A ratio is taken only from a prediction that had a figure and a run that measured it. Ratios beyond `TIME_RANGE` and
`MEMORY_RANGE` say that something else went wrong than the prediction; they are cut to the range and flagged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from include.core.contracts.correction import Correction
from include.ledger.ledger import Ledger
from include.ledger.records import LedgerEvent

KIND = "prediction"
TIME_RANGE = (0.1, 10.0)
MEMORY_RANGE = (0.5, 10.0)
# Below this the first steps, which compile and fill caches, are most of what was measured.
FEWEST_STEPS = 20
# Code, libraries and machines change: older runs of the same kind are left out.
NEWEST_RUNS = 20
_MOST_EVENTS = 1000
_ENDED_WITH_STEPS = ("done", "timed out", "stopped")
_OUT_OF_MEMORY = "out of memory"

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one run teaches.

    Attributes:
        key: Family, device, precision.
        at: ISO time of the event.
        time_ratio: Measured over predicted seconds of a step, None where one of them is missing.
        memory_ratio: Measured over traced peak of device memory, None where one of them is missing.
        memory_at_least: What the memory ratio cannot be below, since the device was too small; None otherwise.
    """

    key: Key
    at: str
    time_ratio: float | None
    memory_ratio: float | None
    memory_at_least: float | None

    @property
    def teaches(self) -> bool:
        """Whether anything follows from it."""
        return any(value is not None for value in (self.time_ratio, self.memory_ratio, self.memory_at_least))


def read_corrections(ledger: Ledger) -> tuple[Correction, ...]:
    """Corrections per model family, device and precision, in order of these names.

    Args:
        ledger: The ledger; its newest prediction events are read.
    """
    events = ledger.events(kind=KIND, limit=_MOST_EVENTS)
    return corrections_of(lesson for event in events if (lesson := lesson_of(event)) is not None)


def corrections_of(lessons: Iterable[Lesson]) -> tuple[Correction, ...]:
    """Corrections from lessons, newest first. Pure."""
    groups: dict[Key, list[Lesson]] = {}
    for lesson in lessons:
        found = groups.setdefault(lesson.key, [])
        if lesson.teaches and len(found) < NEWEST_RUNS:
            found.append(lesson)
    return tuple(_correction(key, found) for key, found in sorted(groups.items()) if found)


def lesson_of(event: LedgerEvent) -> Lesson | None:
    """What an event teaches; None for one of an older form or without a known kind of training."""
    body = event.body
    key = tuple(body.get(name) for name in ("family", "device", "precision"))
    if not all(isinstance(part, str) and part for part in key):
        return None
    step, memory = _mapping(body.get("step")), _mapping(body.get("memory"))
    as_planned = not body.get("layout_changed")
    ended = body.get("outcome") in _ENDED_WITH_STEPS
    timed = ended and as_planned and (step.get("steps") or 0) >= FEWEST_STEPS
    traced = memory.get("predicted_bytes")
    out = body.get("outcome") == _OUT_OF_MEMORY or body.get("out_of_memory") is True
    return Lesson(
        key=(str(key[0]), str(key[1]), str(key[2])),
        at=event.at,
        time_ratio=_ratio(step.get("measured_s"), step.get("predicted_s")) if timed else None,
        memory_ratio=_ratio(memory.get("measured_bytes"), traced) if ended and as_planned else None,
        memory_at_least=_ratio(memory.get("device_bytes"), traced) if out else None,
    )


def _mapping(value: Any) -> dict[str, Any]:  # noqa: ANN401 - raw JSON
    return value if isinstance(value, dict) else {}


def _ratio(measured: Any, predicted: Any) -> float | None:  # noqa: ANN401 - raw JSON
    """Measured over predicted; None unless both are positive numbers."""
    for value in (measured, predicted):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            return None
    return float(measured) / float(predicted)


def _correction(key: Key, lessons: list[Lesson]) -> Correction:
    times, time_cut = _cut([lesson.time_ratio for lesson in lessons], TIME_RANGE)
    peaks, peak_cut = _cut([lesson.memory_ratio for lesson in lessons], MEMORY_RANGE)
    bounds, bound_cut = _cut([lesson.memory_at_least for lesson in lessons], MEMORY_RANGE)
    flags = []
    if time_cut:
        flags.append(f"{time_cut} time ratios lay beyond {TIME_RANGE[0]:g} to {TIME_RANGE[1]:g} and were cut")
    if peak_cut or bound_cut:
        cut = peak_cut + bound_cut
        flags.append(f"{cut} memory ratios lay beyond {MEMORY_RANGE[0]:g} to {MEMORY_RANGE[1]:g} and were cut")
    if bounds:
        flags.append(f"{len(bounds)} runs ran out of memory: the ratio is at least device memory over traced peak")
    return Correction(
        family=key[0],
        device=key[1],
        precision=key[2],
        memory_ratio=statistics.median(peaks) if peaks else None,
        time_ratio=statistics.median(times) if times else None,
        runs=len(lessons),
        worst_memory_ratio=max([*peaks, *bounds], default=None),
        as_of=max(lesson.at for lesson in lessons)[:10],
        flags=tuple(flags),
        time_spread=max(times) / min(times) if len(times) > 1 else None,
    )


def _cut(values: Iterable[float | None], allowed: tuple[float, float]) -> tuple[list[float], int]:
    """The known values within a range, and how many were outside."""
    low, high = allowed
    known = [value for value in values if value is not None]
    return [min(high, max(low, value)) for value in known], sum(not low <= value <= high for value in known)
