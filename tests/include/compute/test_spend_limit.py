"""A limit in money is an age of the lease; a price that is unknown holds nothing and says so."""

from __future__ import annotations

import logging
from decimal import Decimal

import pytest

from include.compute.spend_limit import SpendLimit


def test_it_is_reached_at_the_age_at_which_the_money_is_spent(caplog):
    limit = SpendLimit(limit_usd="0.5", usd_per_h=Decimal(2))
    assert not limit.reached(899.9)
    assert limit.overspend(899.9) is None
    with caplog.at_level(logging.INFO):
        assert limit.reached(900.5)
        assert limit.reached(901.0)
    assert [record.message for record in caplog.records] == ["the limit of 0.5 USD was spent 0.50 s ago"]
    assert limit.overspend(990.0) == (90.0, Decimal("0.05"))


@pytest.mark.parametrize(("limit_usd", "usd_per_h"), [(None, Decimal(2)), ("0.5", None), ("0.5", Decimal(0))])
def test_without_limit_or_price_nothing_is_reached(limit_usd, usd_per_h, caplog):
    with caplog.at_level(logging.WARNING):
        limit = SpendLimit(limit_usd=limit_usd, usd_per_h=usd_per_h)
    assert not limit.reached(1e9)
    assert limit.overspend(1e9) is None
    assert ("price is unknown" in caplog.text) == (limit_usd is not None and usd_per_h is None)
