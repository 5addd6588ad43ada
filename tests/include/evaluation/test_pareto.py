import itertools

from hypothesis import given

from include.evaluation.pareto import dominates, levels, pareto_front
from tests.support.scorecards import property_test, scorecard, scorecard_sets


@property_test
@given(scorecard_sets())
def test_front_exists_and_none_of_its_members_is_dominated(cards):
    front = pareto_front(cards)
    by_recipe = levels(cards)
    assert front
    for member in front:
        assert not any(dominates(other, by_recipe[member.recipe]) for other in by_recipe.values())


@property_test
@given(scorecard_sets())
def test_whoever_is_left_out_is_dominated_by_a_member(cards):
    by_recipe = levels(cards)
    front = pareto_front(cards)
    for card in set(cards) - set(front):
        assert any(dominates(by_recipe[member.recipe], by_recipe[card.recipe]) for member in front)


@property_test
@given(scorecard_sets())
def test_the_front_does_not_depend_on_the_order(cards):
    wanted = {card.recipe for card in pareto_front(cards)}
    for order in itertools.islice(itertools.permutations(cards), 6):
        assert {card.recipe for card in pareto_front(order)} == wanted


@property_test
@given(scorecard_sets())
def test_the_smallest_file_is_always_on_the_front_unless_an_equal_one_beats_it(cards):
    smallest = min(card.size_bytes for card in cards)
    assert any(card.size_bytes == smallest for card in pareto_front(cards))


def test_noise_does_not_keep_a_larger_candidate_on_the_front():
    small = scorecard("small", accuracy=0.980, size=100, cpu_ms=0.1000)
    # Right on one more of 400 rows and 5 % faster: neither is evidence.
    large = scorecard("large", accuracy=0.9825, size=400, cpu_ms=0.0955)
    assert pareto_front((small, large)) == (small,)


def test_real_differences_keep_both_on_the_front():
    small = scorecard("small", size=100, cpu_ms=0.2)
    fast = scorecard("fast", size=400, cpu_ms=0.1)
    precise = scorecard("precise", size=400, cpu_ms=0.2, accuracy=1.0)
    assert set(pareto_front((small, fast, precise))) == {small, fast, precise}


def test_candidates_that_would_beat_each_other_in_a_circle_leave_a_front():
    # Each is better by more than a tolerance in one figure and worse by less than one in another.
    cards = (
        scorecard("a", cpu_ms=1.00, rss=100_900_000, accuracy=0.9750),
        scorecard("b", cpu_ms=1.15, rss=100_000_000, accuracy=0.9790),
        scorecard("c", cpu_ms=1.08, rss=101_500_000, accuracy=0.9850),
    )
    assert pareto_front(cards)


def test_memory_counts():
    lean = scorecard("lean", rss=100_000_000)
    fat = scorecard("fat", rss=150_000_000)
    assert pareto_front((lean, fat)) == (lean,)


def test_no_candidates_have_no_front():
    assert pareto_front(()) == ()
