import pytest

from include.config.workload import GatesSection
from include.core.errors import GateError
from include.evaluation.gates import check_gates, latency_at, passing
from tests.support.scorecards import scorecard


def failed(cards, **gates):
    return {(c.recipe, c.gate) for c in check_gates(cards, GatesSection(**gates)) if not c.passed}


def test_each_gate_refuses_what_it_limits_and_nothing_else():
    base = scorecard(accuracy=0.97, size=1000, p95_ms=0.5)
    small = scorecard("small", accuracy=0.93, size=100, p95_ms=2.0)
    cards = (base, small)
    assert failed(cards, max_accuracy_drop=1) == set()
    assert failed(cards, max_accuracy_drop=1, min_accuracy=0.95) == {("small", "min_accuracy")}
    assert failed(cards, max_accuracy_drop=0.03) == {("small", "max_accuracy_drop")}
    assert failed(cards, max_accuracy_drop=1, max_p95_ms=1) == {("small", "max_p95_ms")}
    assert failed(cards, max_accuracy_drop=1, max_size_bytes=500) == {("onnx-fp32", "max_size_bytes")}


def test_a_drop_of_exactly_the_limit_passes_in_spite_of_binary_rounding():
    cards = (scorecard(accuracy=0.98), scorecard("other", accuracy=0.97))
    assert 0.98 - 0.97 > 0.01
    assert failed(cards, max_accuracy_drop=0.01) == set()
    assert failed((cards[0], scorecard("other", accuracy=0.9675)), max_accuracy_drop=0.01)


def test_gates_judge_the_validation_split_not_the_test_split():
    lucky = scorecard("lucky", accuracy=0.90, test_accuracy=0.99)
    assert failed((scorecard(), lucky), min_accuracy=0.95) >= {("lucky", "min_accuracy")}


def test_every_comparison_is_recorded_with_its_numbers():
    checks = check_gates((scorecard(accuracy=0.97, size=900),), GatesSection(min_accuracy=0.95, max_size_bytes=800))
    by_gate = {c.gate: c for c in checks}
    assert (by_gate["max_size_bytes"].found, by_gate["max_size_bytes"].allowed) == (900, 800)
    assert by_gate["min_accuracy"].passed
    assert "max_p95_ms" not in by_gate


def test_without_the_baseline_there_is_nothing_to_compare_with():
    with pytest.raises(GateError, match=r"baseline was not measured.*found: other"):
        check_gates((scorecard("other"),), GatesSection())


def test_a_latency_that_was_not_measured_is_an_error_and_not_a_pass():
    with pytest.raises(GateError, match="batch 8 was not measured"):
        latency_at(scorecard(), 8)


def test_passing_drops_candidates_with_one_failed_check():
    cards = (scorecard(), scorecard("bad", accuracy=0.5))
    assert [c.recipe for c in passing(cards, check_gates(cards, GatesSection()))] == ["onnx-fp32"]
