from __future__ import annotations

import pytest

from include.training.telemetry.series import BoundedSeries
from tests.support.series import series_of


def test_gap_counts_for_nothing() -> None:
    facts = series_of([1.0, None, 3.0], every_s=1.0)
    assert (facts.count, facts.mean, facts.smallest, facts.largest) == (2, 2.0, 1.0, 3.0)
    assert facts.recent == (1.0, None, 3.0)
    assert facts.known == (1.0, 3.0)


def test_series_without_measurements_has_no_level() -> None:
    facts = series_of([None, None], every_s=1.0)
    assert (facts.count, facts.mean, facts.smallest, facts.largest) == (0, None, None, None)
    assert facts.whole == (None, None)


def test_zero_is_a_measurement() -> None:
    facts = series_of([0.0, 0.0], every_s=1.0)
    assert (facts.count, facts.mean, facts.smallest) == (2, 0.0, 0.0)


def test_days_fit_and_both_ends_stay_visible() -> None:
    series = BoundedSeries(1.0)
    for second in range(20_000):
        series.add(float(second))
    facts = series.facts()
    assert len(facts.recent) <= 300
    assert len(facts.whole) <= 241
    assert facts.recent[-1] == 19_999
    assert facts.whole[0] == pytest.approx((facts.stretch_s - 1) / 2)
    assert facts.mean == pytest.approx(9_999.5)
    assert (facts.smallest, facts.largest) == (0, 19_999)


def test_stretches_cover_everything_evenly() -> None:
    facts = series_of([float(second % 2) for second in range(5000)], every_s=0.5)
    assert facts.stretch_s * len(facts.whole) >= 2500
    assert set(facts.whole) == {0.5}
