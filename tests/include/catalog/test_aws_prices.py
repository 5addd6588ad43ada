"""Prices as AWS gives them: the newest per zone, and what is no price."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from include.catalog.aws_prices import parse_products, parse_spot
from tests.support.aws_answers import NOW, REGION, product, spot

ON_DEMAND = {("g5.xlarge", REGION): Decimal("1.006")}


def spots(*history, on_demand=ON_DEMAND):
    return parse_spot(history, region=REGION, types={"g5.xlarge"}, on_demand=on_demand, now=NOW)


def products(*price_list, before=ON_DEMAND):
    return parse_products(price_list, region=REGION, types={"g5.xlarge"}, before=before, now=NOW)


def test_the_newest_price_of_each_zone_counts():
    found = spots(
        spot("g5.xlarge", "us-east-1a", "0.50", age=timedelta(hours=9)),
        spot("g5.xlarge", "us-east-1a", "0.40", age=timedelta(hours=1)),
        spot("g5.xlarge", "us-east-1a", "0.60", age=timedelta(days=2)),
        spot("g5.xlarge", "us-east-1b", "0.4500"),
    )
    assert [(q.zone, q.usd_per_h) for q in found.usable] == [("us-east-1a", "0.4"), ("us-east-1b", "0.45")]
    assert all((q.as_of, q.purchase, q.region) == (NOW.date(), "spot", REGION) for q in found.usable)
    assert found.refused == ()


def test_other_products_and_types_are_left_alone():
    found = spots(
        spot("g5.xlarge", "us-east-1a", "0.9", product="Windows"),
        spot("t3.nano", "us-east-1a", "0.001"),
    )
    assert (found.usable, found.refused) == ((), ())


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (spot("g5.xlarge", "us-east-1a", "0.000"), "price '0.000' is not positive"),
        (spot("g5.xlarge", "us-east-1a", "free"), "price 'free' is not positive"),
        (spot("g5.xlarge", "us-east-1a", "0.4", age=timedelta(days=31)), "price 0.4 has not changed for 31 days"),
        (spot("g5.xlarge", "us-east-1a", "0.00001"), "price 0.00001 is implausible beside 1.006 on demand"),
        (spot("g5.xlarge", "us-east-1a", "2"), "price 2 is implausible beside 1.006 on demand"),
    ],
)
def test_what_is_no_spot_price_is_refused(item, reason):
    found = spots(item)
    assert found.usable == ()
    assert found.refused == (f"spot g5.xlarge in us-east-1a: {reason}",)


def test_a_spot_price_needs_no_price_to_compare_with():
    assert len(spots(spot("g5.xlarge", "us-east-1a", "0.4"), on_demand={}).usable) == 1


def test_the_listed_price_is_read_without_its_zeros():
    found = products(product("g5.xlarge", "1.0060000000"), product("m7i.large", "0.1"))
    assert [(q.type, q.zone, q.usd_per_h, q.as_of) for q in found.usable] == [("g5.xlarge", None, "1.006", NOW.date())]
    assert "Pricing GetProducts" in found.usable[0].source


@pytest.mark.parametrize(
    ("price_list", "reason"),
    [
        ([product("g5.xlarge", "0.0000000000")], "no positive price"),
        ([product("g5.xlarge", None)], "no positive price"),
        ([product("g5.xlarge", "1", unit="Quantity")], "no price by the hour"),
        ([product("g5.xlarge", "1.006"), product("g5.xlarge", "1.1")], "several prices: 1.006, 1.1"),
        ([product("g5.xlarge", "0.1006")], "price 0.1006 is implausible beside 1.006 before"),
        ([product("g5.xlarge", "10.06")], "price 10.06 is implausible beside 1.006 before"),
    ],
)
def test_what_is_no_listed_price_is_refused(price_list, reason):
    found = products(*price_list)
    assert found.usable == ()
    assert f"on-demand g5.xlarge in us-east-1: {reason}" in found.refused


def test_a_zero_beside_the_price_does_not_hide_it():
    found = products(product("g5.xlarge", "1.006"), product("g5.xlarge", "0"))
    assert [q.usd_per_h for q in found.usable] == ["1.006"]
    assert len(found.refused) == 1


def test_a_first_price_has_nothing_to_be_held_against():
    assert len(products(product("g5.xlarge", "10.06"), before={}).usable) == 1
