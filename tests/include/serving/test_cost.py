from __future__ import annotations

from decimal import Decimal

import pytest

from include.serving.cost import cost_per_1000


def test_cost_of_a_thousand() -> None:
    assert cost_per_1000(usd_per_h=Decimal("0.17"), rate_per_s=134.0) == Decimal(170) / (3600 * 134)


@pytest.mark.parametrize(("price", "rate"), [(None, 10.0), (Decimal(1), None), (None, None)])
def test_unknown_stays_unknown(price: Decimal | None, rate: float | None) -> None:
    assert cost_per_1000(usd_per_h=price, rate_per_s=rate) is None


def test_a_free_machine_costs_nothing() -> None:
    assert cost_per_1000(usd_per_h=Decimal(0), rate_per_s=5.0) == 0


@pytest.mark.parametrize(("price", "rate"), [("-1", 10.0), ("1", 0.0), ("1", float("nan"))])
def test_nonsense_is_refused(price: str, rate: float) -> None:
    with pytest.raises(ValueError, match="make no cost"):
        cost_per_1000(usd_per_h=Decimal(price), rate_per_s=rate)
