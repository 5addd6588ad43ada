"""The launcher's end of telemetry: files of the workers to the store, and the verdict over them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from include.core.contracts.diagnosis import Diagnosis
from include.core.contracts.measured import Measured
from include.core.json_codec import from_json, to_json
from include.core.json_file import read_json
from include.core.store import ObjectStore
from include.training.diagnosis import diagnose
from include.training.measured import measured_of
from include.training.telemetry.facts import RankTelemetry
from include.training.telemetry.local_files import TELEMETRY, TRACES

_log = logging.getLogger("plimsoll.telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTelemetry:
    """``<base>/telemetry.json``: what the workers of one machine measured in one attempt.

    Attributes:
        ranks: Workers that left telemetry.
        diagnosis: The verdict over them.
        traces: URIs of profiler traces.
        measured: Step and peak, to be held against the prediction.
    """

    ranks: tuple[RankTelemetry, ...]
    diagnosis: Diagnosis
    traces: tuple[str, ...] = ()
    measured: Measured | None = None


def publish_telemetry(folders: Sequence[Path], *, store: ObjectStore, base: str) -> AttemptTelemetry | None:
    """Bring the telemetry of this machine's workers to the store and judge it. Never raises: it is no part of the work.

    Args:
        folders: The workers' scratch folders; what was published is removed from them.
        store: The object store.
        base: Prefix of the attempt.

    Returns:
        What was published, or None when no worker left telemetry or the store did not take it.
    """
    try:
        return _publish(folders, store=store, base=base)
    except Exception:  # noqa: BLE001 - the boundary: whatever fails here, the training's outcome stands
        _log.exception("telemetry could not be published")
        return None


def _publish(folders: Sequence[Path], *, store: ObjectStore, base: str) -> AttemptTelemetry | None:
    ranks = tuple(rank for folder in folders if (rank := _read(folder)) is not None)
    if not ranks:
        return None
    traces = tuple(uri for folder in folders for uri in _upload_traces(folder, store=store, base=base))
    found = AttemptTelemetry(ranks=ranks, diagnosis=diagnose(ranks), traces=traces, measured=measured_of(ranks))
    store.put_json(f"{base}/{TELEMETRY}", to_json(found))
    for folder in folders:
        (folder / TELEMETRY).unlink(missing_ok=True)
    _log.info("telemetry: %s: %s", found.diagnosis.verdict.value, found.diagnosis.reason)
    return found


def _read(folder: Path) -> RankTelemetry | None:
    value = read_json(folder / TELEMETRY)
    try:
        return None if value is None else from_json(RankTelemetry, value)
    except ValidationError as error:
        _log.warning("telemetry of %s cannot be read: %s", folder.name, error)
        return None


def _upload_traces(folder: Path, *, store: ObjectStore, base: str) -> list[str]:
    uris = []
    for path in sorted((folder / TRACES).glob("*.json*")):
        key = f"{base}/traces/{path.name}"
        store.upload(path, key)
        path.unlink()
        uris.append(store.uri(key))
    return uris
