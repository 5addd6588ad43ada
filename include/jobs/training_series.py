"""Series and verdict of a run's training, read from the telemetry of its attempts for the MLflow run.

Parts of the step go to ``training/<name>`` at optimizer steps, device and host to ``system/<name>``, where MLflow shows
them as system metrics, at seconds since the first attempt began. Of several workers the first one's are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from include.core.json_codec import from_json
from include.core.store import ObjectStore
from include.registry.versions import SeriesPoint
from include.training.telemetry.facts import RankTelemetry
from include.training.telemetry.local_files import TELEMETRY
from include.training.telemetry.step_facts import PARTS
from include.training.telemetry_report import AttemptTelemetry

_ATTEMPT = re.compile(rf"/jobs/train-(\d+)/{re.escape(TELEMETRY)}$")
# What a curve on a screen can show.
_MOST_POINTS = 120
_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSeries:
    """What a run's training left.

    Attributes:
        points: All series.
        tags: The verdict over the newest attempt; empty where there is none.
    """

    points: tuple[SeriesPoint, ...] = ()
    tags: dict[str, str]


def training_series(store: ObjectStore, *, run_prefix: str) -> TrainingSeries:
    """Read the telemetry of all attempts. One that cannot be read is passed over: it is a newer or older format."""
    points: list[SeriesPoint] = []
    tags: dict[str, str] = {}
    origin: float | None = None
    keys = {int(found[1]): key for key, _ in store.list(f"{run_prefix}/jobs") if (found := _ATTEMPT.search(key))}
    for _, key in sorted(keys.items()):
        try:
            telemetry = from_json(AttemptTelemetry, store.get_json(key))
        except ValidationError:
            continue
        account = store.get_json(f"{key.rpartition('/')[0]}/steps.json") or {}
        first = telemetry.ranks[0]
        began_at = first.began_at or 0.0
        origin = began_at if origin is None else origin
        points += _step_points(first, resumed_step=account.get("resumed_step") or 0)
        points += _system_points(first, after_s=began_at - origin)
        said = telemetry.diagnosis
        tags = {"training.verdict": said.verdict.value, "training.reason": said.reason, "training.fix": said.fix}
    return TrainingSeries(points=tuple(points), tags=tags)


def _step_points(rank: RankTelemetry, *, resumed_step: int) -> Iterator[SeriesPoint]:
    if rank.steps is None:
        return
    step, thin = resumed_step, _thinning(len(rank.steps.windows))
    for place, window in enumerate(rank.steps.windows):
        step += window.steps
        if place % thin or window.seconds <= 0:
            continue
        at_ms = _at_ms(rank, window.at_s + window.seconds)
        values = {name: window.parts_s[name] / window.seconds for name in PARTS if rank.steps.parts[name].entries}
        values["samples_per_s"] = window.samples / window.seconds
        for name, value in values.items():
            yield SeriesPoint(name=f"training/{name}", value=value, step=step, at_ms=at_ms)


def _system_points(rank: RankTelemetry, *, after_s: float) -> Iterator[SeriesPoint]:
    for name, series in rank.series.items():
        thin = _thinning(len(series.whole))
        for place, value in enumerate(series.whole):
            if value is None or place % thin:
                continue
            second = (place + 1) * series.stretch_s
            yield SeriesPoint(
                name=f"system/{name}", value=value, step=round(after_s + second), at_ms=_at_ms(rank, second)
            )


def _thinning(count: int) -> int:
    return max(1, -(-count // _MOST_POINTS))


def _at_ms(rank: RankTelemetry, second: float) -> int:
    return int(_MS * ((rank.began_at or 0.0) + second))
