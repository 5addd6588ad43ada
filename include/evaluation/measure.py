"""Measure one artefact as it will be served: loaded from its file by ONNX Runtime, in a process that did nothing else.

This module must stay free of torch: its import alone would dwarf the memory of the artefact.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from include.core.contracts.recipe import Candidate
from include.core.contracts.scorecard import Latency, Scorecard
from include.core.errors import PlimsollError, StoreError
from include.core.store import file_digest
from include.evaluation.intervals import wilson_interval
from include.evaluation.latency import BATCHED, SINGLE, measure_latency
from include.evaluation.process_facts import peak_rss_bytes, runtime_description

PROVIDER = "CPUExecutionProvider"
THREADS = 1
_SCORING_BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """Encoded rows of one split.

    Attributes:
        x: Inputs, float32 [rows, *input_shape].
        y: Class indices, int64 [rows].
    """

    x: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]


def check_digest(path: Path, *, expected: str, where: str) -> None:
    """Refuse a file that is not the one that was compressed.

    Raises:
        StoreError: The digests differ.
    """
    found = file_digest(path)
    if found != expected:
        raise StoreError(
            f"model file is not the candidate | where: {where} | found: sha256 {found} | is not {expected}"
        )


def open_session(path: Path) -> onnxruntime.InferenceSession:
    """Session on one thread without spinning, so that CPU time is work and not waiting."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=[PROVIDER])


def _logits(session: onnxruntime.InferenceSession, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    logits: np.ndarray[Any, Any] = session.run(None, {session.get_inputs()[0].name: x})[0]
    if not np.isfinite(logits).all():
        raise PlimsollError("the model answers with values that are not finite")
    return logits


def count_right(session: onnxruntime.InferenceSession, rows: LabelledRows) -> int:
    """Rows whose largest logit is that of the label.

    Raises:
        PlimsollError: A logit is not finite.
    """
    right = 0
    for start in range(0, len(rows.y), _SCORING_BATCH):
        part = slice(start, start + _SCORING_BATCH)
        right += int((_logits(session, rows.x[part]).argmax(axis=1) == rows.y[part]).sum())
    return right


def _latencies(session: onnxruntime.InferenceSession, x: np.ndarray[Any, Any]) -> tuple[Latency, ...]:
    name = session.get_inputs()[0].name
    found = []
    for batch in (SINGLE, BATCHED):
        # np.resize repeats the rows where there are fewer than the batch needs.
        feed = {name: np.resize(x, (batch, *x.shape[1:]))}
        found.append(measure_latency(lambda feed=feed: session.run(None, feed), batch=batch))  # type: ignore[misc]
    return tuple(found)


def measure(*, candidate: Candidate, path: Path, validation: LabelledRows, test: LabelledRows) -> Scorecard:
    """Scorecard of one artefact.

    Args:
        candidate: What the file should be.
        path: Local copy of the model file.
        validation: Rows on which choices are made.
        test: Rows on which the result is reported.

    Raises:
        StoreError: The file is not the candidate.
        PlimsollError: The model's answers are not finite.
    """
    check_digest(path, expected=candidate.sha256, where=candidate.model_uri)
    session = open_session(path)
    latencies = _latencies(session, test.x)
    right = count_right(session, test)
    low, high = wilson_interval(successes=right, rows=len(test.y))
    return Scorecard(
        recipe=candidate.recipe,
        recipe_hash=candidate.recipe_hash,
        model_uri=candidate.model_uri,
        sha256=candidate.sha256,
        size_bytes=path.stat().st_size,
        rows=len(test.y),
        accuracy=right / len(test.y),
        accuracy_low=low,
        accuracy_high=high,
        validation_accuracy=count_right(session, validation) / len(validation.y),
        validation_rows=len(validation.y),
        latencies=latencies,
        peak_rss_bytes=peak_rss_bytes(),
        runtime=runtime_description(provider=PROVIDER, threads=THREADS),
    )
