"""Series of telemetry that exist already."""

from __future__ import annotations

from include.training.telemetry.series import BoundedSeries, SeriesFacts


def series_of(values: tuple[float | None, ...] | list[float | None] | list[float], *, every_s: float) -> SeriesFacts:
    """The facts of a series that exists already, for example a recorded one."""
    collected = BoundedSeries(every_s)
    for value in values:
        collected.add(value)
    return collected.facts()
