"""The smoke test of a deployment: real requests to the real endpoint, and what their answers must fulfil."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from include.serving.artefact import probabilities
from include.serving.client import Answer, EndpointClient
from include.serving.payload import Rows

# A stall of a busy machine only ever adds latency, so the best of a few rounds is nearest to the server's own.
ROUNDS = 3
# Standard errors by which the accuracy of the sampled rows may stay behind that of the whole test split.
_STANDARD_ERRORS = 3.0
# Largest difference of a probability: answers carry six decimals, and both sides compute in float32.
PROBABILITY_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeReport:
    """What the endpoint answered.

    Attributes:
        answers: One answer per row, of the last round.
        p99_ms: 99th percentile of the best round.
        accuracy: Share of right labels.
    """

    answers: tuple[Answer, ...]
    p99_ms: float
    accuracy: float


def run_smoke(client: EndpointClient, rows: Rows, labels: Sequence[str], *, slo_p99_ms: float) -> SmokeReport:
    """Send every row as a request of its own, one after the other; again while the objective is missed.

    Raises:
        InvocationError: A request is not answered.
    """
    best_ms = math.inf
    answers: list[Answer] = []
    for _ in range(ROUNDS):
        answers = [client.invoke({"inputs": [row.tolist()]}) for row in rows]
        seconds = [answer.seconds for answer in answers]
        best_ms = min(best_ms, float(np.percentile(seconds, 99, method="higher")) * 1000)
        if best_ms <= slo_p99_ms:
            break
    right = sum(answer.predictions[0]["label"] == label for answer, label in zip(answers, labels, strict=True))
    return SmokeReport(answers=tuple(answers), p99_ms=best_ms, accuracy=right / len(rows))


def smoke_failures(report: SmokeReport, *, version: str, slo_p99_ms: float, expected_accuracy: float) -> list[str]:
    """What is wrong with the answers; empty when nothing is.

    Args:
        report: The answers.
        version: Version that must have given them.
        slo_p99_ms: Objective of the workload.
        expected_accuracy: Accuracy of the scorecard, on the test split that the rows were taken from.
    """
    failures = []
    others = sorted({answer.version for answer in report.answers} - {version})
    if others:
        failures.append(f"version {', '.join(others)} answered instead of {version}")
    if report.p99_ms > slo_p99_ms:
        failures.append(f"p99 {report.p99_ms:.1f} ms exceeds {slo_p99_ms:g} ms in each of {ROUNDS} rounds")
    rows = len(report.answers)
    error = math.sqrt(expected_accuracy * (1 - expected_accuracy) / rows)
    lowest = expected_accuracy - _STANDARD_ERRORS * error - 1 / rows
    if report.accuracy < lowest:
        failures.append(
            f"accuracy {report.accuracy:.3f} on {rows} test rows; the scorecard says {expected_accuracy:.3f}"
        )
    return failures


def disagreements(answers: Sequence[Answer], logits: NDArray[np.float32], classes: tuple[str, ...]) -> list[int]:
    """Indices of rows where endpoint and registered version differ in label, or in a probability by more than 1e-4.

    Args:
        answers: The endpoint's answers, one row each.
        logits: The registered version's, shape (rows, classes).
        classes: Labels in index order.
    """
    wanted = probabilities(logits)
    return [
        index
        for index, (answer, shares) in enumerate(zip(answers, wanted, strict=True))
        if not _same(answer.predictions[0], shares, classes)
    ]


def _same(found: dict[str, Any], shares: NDArray[np.float64], classes: tuple[str, ...]) -> bool:
    given = np.array([found["probabilities"][name] for name in classes])
    label = classes[int(shares.argmax())]
    return bool(found["label"] == label and np.abs(given - shares).max() <= PROBABILITY_TOLERANCE)
