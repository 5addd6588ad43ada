from include.config.workload import GatesSection
from include.evaluation.gates import check_gates
from include.evaluation.picture_points import Role, logarithmic_ticks, points, sentence
from tests.support.scorecards import scorecard

CARDS = (scorecard(), scorecard("best", size=100), scorecard("other", size=90_000), scorecard("bad", accuracy=0.5))


def drawn(front=("best",), chosen="best"):
    return points(CARDS, checks=check_gates(CARDS, GatesSection()), front=front, chosen=chosen)


def test_each_candidate_has_the_role_that_the_decision_gave_it():
    roles = {point.card.recipe: point.role for point in drawn(front=("best", "other"))}
    assert roles == {
        "onnx-fp32": Role.DOMINATED, "best": Role.CHOSEN, "other": Role.FRONT, "bad": Role.REFUSED,
    }  # fmt: skip


def test_a_refused_candidate_says_by_which_numbers():
    bad = drawn()[3]
    assert bad.failed == ("max_accuracy_drop: 0.48 (limit 0.01)",)
    assert "max_accuracy_drop: 0.48 (limit 0.01)" in sentence(bad)


def test_without_a_choice_nobody_is_shown_as_chosen():
    assert Role.CHOSEN not in {point.role for point in drawn(front=(), chosen=None)}


def test_ticks_enclose_all_values_even_a_single_one():
    ticks = logarithmic_ticks([3.0, 50.0])
    assert ticks[0] < 3
    assert ticks[-1] > 50
    assert ticks == sorted(ticks)
    assert logarithmic_ticks([5.0])[0] < 5 < logarithmic_ticks([5.0])[-1]
