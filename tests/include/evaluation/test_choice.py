import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from include.config.workload import GatesSection
from include.core.errors import GateError
from include.evaluation.choice import decide
from include.evaluation.gates import check_gates, passing
from tests.support.scorecards import property_test, scorecard, scorecard_sets


def choose(cards, **gates):
    return decide(cards, check_gates(cards, GatesSection(**gates)))


def gate_sections():
    return st.builds(
        GatesSection,
        min_accuracy=st.sampled_from([0.0, 0.96]),
        max_accuracy_drop=st.sampled_from([0.0, 0.01, 0.03]),
        max_p95_ms=st.none() | st.floats(0.5, 4),
        max_size_bytes=st.none() | st.integers(2_000, 500_000),
    )


@property_test
@given(scorecard_sets(), gate_sections())
def test_the_chosen_one_passes_all_gates_and_is_the_smallest_that_does(cards, gates):
    checks = check_gates(cards, gates)
    allowed = passing(cards, checks)
    assume(allowed)
    verdict = decide(cards, checks)
    assert all(check.passed for check in checks if check.recipe == verdict.chosen)
    assert verdict.chosen in verdict.front
    assert set(verdict.front) <= {card.recipe for card in allowed}
    sizes = {card.recipe: card.size_bytes for card in allowed}
    assert sizes[verdict.chosen] == min(sizes.values())


@property_test
@given(scorecard_sets(), gate_sections())
def test_a_choice_is_made_exactly_when_somebody_passes(cards, gates):
    checks = check_gates(cards, gates)
    if passing(cards, checks):
        assert decide(cards, checks).checks == checks
    else:
        with pytest.raises(GateError, match="no candidate passes"):
            decide(cards, checks)


@property_test
@given(scorecard_sets())
def test_the_choice_does_not_depend_on_the_order(cards):
    assert choose(cards, max_accuracy_drop=1).chosen == choose(cards[::-1], max_accuracy_drop=1).chosen


def test_a_better_candidate_that_may_not_be_used_does_not_hide_one_that_may():
    base = scorecard(accuracy=0.980, size=600)
    # Within one standard error of the baseline and smaller, so it dominates; but the drop is larger than allowed.
    forbidden = scorecard("forbidden", accuracy=0.975, size=100)
    assert choose((base, forbidden), max_accuracy_drop=0.001).chosen == "onnx-fp32"


def test_equal_sizes_are_decided_by_latency_and_then_by_name():
    base = scorecard(size=900)
    slow, fast = scorecard("a-slow", size=100, cpu_ms=0.3), scorecard("b-fast", size=100, cpu_ms=0.1)
    assert choose((base, slow, fast)).chosen == "b-fast"
    twins = scorecard("twin-b", size=100), scorecard("twin-a", size=100)
    assert choose((base, *twins)).chosen == "twin-a"


def test_nothing_feasible_names_the_nearest_violators_first_with_their_numbers():
    cards = (
        scorecard(accuracy=0.94, size=1000),
        scorecard("near", accuracy=0.945, size=400),
        scorecard("far", accuracy=0.90, size=100),
    )
    with pytest.raises(GateError) as caught:
        choose(cards, min_accuracy=0.95, max_size_bytes=500, max_accuracy_drop=0.02)
    text = str(caught.value)
    assert "near (min_accuracy: 0.945 < 0.95)" in text
    assert "max_size_bytes: 1000 > 500" in text
    assert "max_accuracy_drop: 0.04 > 0.02" in text
    assert text.index("near (") < text.index("far (") < text.index("onnx-fp32 (")


def test_the_reason_carries_the_numbers():
    verdict = choose((scorecard(size=600_000), scorecard("int8", size=150_000, accuracy=0.9775)))
    assert verdict.chosen == "int8"
    assert "4.00 times smaller than onnx-fp32" in verdict.reason
    assert "0.9775 (baseline 0.9800)" in verdict.reason


def test_two_scorecards_of_one_recipe_are_refused():
    with pytest.raises(GateError, match=r"more than one scorecard.*onnx-fp32"):
        choose((scorecard(), scorecard()))
