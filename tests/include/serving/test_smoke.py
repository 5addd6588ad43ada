from __future__ import annotations

import numpy as np
import pytest

from include.serving.artefact import predictions
from include.serving.client import Answer
from include.serving.smoke import ROUNDS, disagreements, run_smoke, smoke_failures

CLASSES = ("a", "b")
ROWS = np.zeros((4, 2), np.float32)
LOGITS = np.array([[2, 0], [0, 2], [1, 0], [0, 1]], np.float32)


class Endpoint:
    """Answers with fixed logits; the first answers are slow."""

    def __init__(self, *, slow: int = 0) -> None:
        self.asked = 0
        self.slow = slow

    def invoke(self, body: dict) -> Answer:
        index = self.asked % len(LOGITS)
        self.asked += 1
        seconds = 0.5 if self.asked <= self.slow else 0.001
        return Answer(predictions=predictions(LOGITS[index : index + 1], CLASSES), version="3", seconds=seconds)


def report(endpoint: Endpoint | None = None, labels: tuple[str, ...] = ("a", "b", "a", "b")):
    return run_smoke(endpoint or Endpoint(), ROWS, labels, slo_p99_ms=100)


def failures(found, *, version: str = "3", accuracy: float = 1.0) -> list[str]:
    return smoke_failures(found, version=version, slo_p99_ms=100, expected_accuracy=accuracy)


def test_good_answers_have_no_failures() -> None:
    found = report()
    assert (found.accuracy, found.p99_ms) == (1.0, pytest.approx(1.0))
    assert failures(found) == []


def test_a_stall_is_given_another_round() -> None:
    endpoint = Endpoint(slow=1)
    assert failures(report(endpoint)) == []
    assert endpoint.asked == 2 * len(ROWS)


def test_an_endpoint_that_stays_slow_fails() -> None:
    endpoint = Endpoint(slow=100)
    assert "p99 500.0 ms exceeds 100 ms" in failures(report(endpoint))[0]
    assert endpoint.asked == ROUNDS * len(ROWS)


def test_answers_of_another_version_fail() -> None:
    assert failures(report(), version="4") == ["version 3 answered instead of 4"]


def test_accuracy_must_be_near_the_scorecards() -> None:
    found = report(labels=("b", "a", "a", "b"))
    assert found.accuracy == 0.5
    assert "accuracy 0.500 on 4 test rows; the scorecard says 1.000" in failures(found)[0]
    assert failures(found, accuracy=0.6) == [], "within the error of a sample of four"


def test_disagreements_are_counted_in_labels_and_probabilities() -> None:
    answers = report().answers
    assert disagreements(answers, LOGITS, CLASSES) == []
    assert disagreements(answers, LOGITS + np.float32(7), CLASSES) == [], "a softmax does not see a common shift"
    changed = LOGITS.copy()
    changed[1] = changed[1][::-1]
    changed[2, 0] += 0.01
    assert disagreements(answers, changed, CLASSES) == [1, 2]


def test_answers_of_another_number_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        disagreements(report().answers, LOGITS[:3], CLASSES)
