import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.evaluation.intervals import standard_error, wilson_interval
from tests.support.scorecards import property_test


# Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I.
@pytest.mark.parametrize(
    ("successes", "rows", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_intervals(successes, rows, low, high):
    assert wilson_interval(successes=successes, rows=rows) == pytest.approx((low, high), abs=6e-5)


@property_test
@given(st.integers(1, 5000).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows))))
def test_interval_holds_the_share_and_stays_in_range(case):
    successes, rows = case
    low, high = wilson_interval(successes=successes, rows=rows)
    assert 0 <= low <= successes / rows <= high <= 1
    assert low < high


def test_more_rows_narrow_the_interval():
    few = wilson_interval(successes=95, rows=100)
    many = wilson_interval(successes=9500, rows=10_000)
    assert many[1] - many[0] < few[1] - few[0]


@pytest.mark.parametrize(("successes", "rows"), [(0, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(successes, rows):
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(successes=successes, rows=rows)


def test_a_perfect_score_keeps_an_error_of_one_row():
    assert standard_error(share=1.0, rows=250) == 1 / 250
    assert standard_error(share=0.5, rows=100) == pytest.approx(0.05)
