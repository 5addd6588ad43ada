"""Rates of interruption: stated ones, and how own attempts change them."""

from __future__ import annotations

import pytest

from include.catalog.interruptions import InterruptionRate, learned_rate, stated_rate
from include.core.contracts.offer import PurchaseOption

PRIOR = InterruptionRate(per_h=0.1, source="a test")


def test_nobody_published_a_rate_for_cpu_types():
    assert stated_rate(PurchaseOption.SPOT, 0) is None


def test_more_accelerators_are_interrupted_more_often():
    for purchase in (PurchaseOption.SPOT, PurchaseOption.ON_DEMAND):
        assert stated_rate(purchase, 8).per_h > stated_rate(purchase, 1).per_h


def test_without_own_hours_the_stated_rate_stays():
    assert learned_rate(PRIOR, interruptions=0, hours=0) is PRIOR


def test_own_hours_without_interruption_lower_the_rate_slowly():
    # the prior is worth 1 interruption in 10 hours; 10 quiet hours more make it 1 in 20
    assert learned_rate(PRIOR, interruptions=0, hours=10).per_h == pytest.approx(0.05)


def test_many_own_hours_outweigh_the_stated_rate():
    learned = learned_rate(PRIOR, interruptions=200, hours=100)
    assert learned.per_h == pytest.approx(2.0, rel=0.1)
    assert learned.source == "learned: 200 interruptions in 100 own hours, with as prior 0.1/h (a test)"


@pytest.mark.parametrize("seen", [{"interruptions": -1, "hours": 1}, {"interruptions": 1, "hours": -1}])
def test_counts_cannot_be_negative(seen):
    with pytest.raises(ValueError, match="must not be negative"):
        learned_rate(PRIOR, **seen)
