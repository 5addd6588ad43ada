"""The merged list of offers: prices are checked against a day, and what is missing is said."""

from __future__ import annotations

from datetime import date

import pytest

from include.catalog.freshness import Staleness, age_days, refusal_of, with_price_checked
from include.catalog.loader import load_catalog
from include.catalog.offers import load_offers
from include.config.settings import Settings
from include.core.contracts.offer import Price, PurchaseOption

TODAY = date(2026, 11, 30)
THRESHOLDS = Staleness(listed=90, spot=7)


def price(usd="1", as_of="2026-11-29"):
    return Price(usd_per_h=usd, as_of=as_of, source="a test", method="quoted")


def offer_with(quote, purchase=PurchaseOption.ON_DEMAND):
    from dataclasses import replace

    return replace(load_catalog()[0], price=quote, purchase=purchase)


def flags(quote, **kwargs):
    return with_price_checked(offer_with(quote, **kwargs), today=TODAY, staleness=THRESHOLDS).flags


def test_age_of_a_price():
    assert age_days(price(as_of="2025-11-30"), TODAY) == 365


@pytest.mark.parametrize("usd", ["0", "-1", "NaN", "Infinity", "cheap", "0.000"])
def test_a_price_that_is_none_is_refused_and_said(usd):
    checked = with_price_checked(offer_with(price(usd)), today=TODAY, staleness=THRESHOLDS)
    assert checked.price is None
    assert checked.flags[0].startswith("price refused: ")


def test_a_price_of_the_future_is_refused_and_one_of_another_time_zone_is_not():
    assert refusal_of(price(as_of="2026-12-02"), today=TODAY) == "price is dated 2026-12-02, after 2026-11-30"
    assert refusal_of(price(as_of="2026-12-01"), today=TODAY) is None


def test_a_price_is_stale_one_day_after_the_threshold():
    assert flags(price(as_of="2026-09-01")) == ()
    assert flags(price(as_of="2026-08-31")) == ("stale price: 91 days old, stale after 90",)


def test_a_spot_price_is_stale_sooner():
    assert flags(price(as_of="2026-11-20")) == ()
    assert flags(price(as_of="2026-11-20"), purchase=PurchaseOption.SPOT) == (
        "stale price: 10 days old, stale after 7",
    )


def test_an_offer_without_a_price_says_so():
    assert flags(None) == ("no price",)


def test_the_thresholds_are_settings(tmp_path):
    store = f"file://{tmp_path}"
    old = load_offers(Settings(store=store, price_stale_after_days=3000), today=TODAY)
    assert not any(flag.startswith("stale") for offer in old.offers for flag in offer.flags)
    assert not any("stale" in note for note in old.notes)
    now = load_offers(Settings(store=store, price_stale_after_days=30), today=TODAY)
    priced = sum(offer.price is not None for offer in now.offers)
    assert f"{priced} of {priced} prices are stale" in now.notes
