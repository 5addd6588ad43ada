"""The merged list of offers: prices are checked against a day, and what is missing is said."""

from __future__ import annotations

from datetime import date

import pytest

from include.catalog.freshness import Staleness, age_days, refusal_of, with_price_checked
from include.catalog.loader import load_catalog
from include.catalog.offers import load_offers
from include.config.settings import Settings
from include.core.contracts.experience import Experience
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


def test_own_interruptions_correct_the_stated_rate_of_that_type_and_option_alone(tmp_path):
    settings = Settings(store=f"file://{tmp_path}")
    seen = Experience(instance_type="g5.xlarge", purchase="spot", interruptions=0, hours=1000.0)
    before = {offer.name: offer for offer in load_offers(settings, today=TODAY).offers}
    after = {offer.name: offer for offer in load_offers(settings, today=TODAY, experience=(seen,)).offers}
    changed = {name for name, offer in after.items() if offer.interruptions_per_h != before[name].interruptions_per_h}
    assert changed == {name for name in before if name.startswith("g5.xlarge/spot/")}
    learned = after["g5.xlarge/spot/us-east-1"]
    assert learned.interruptions_per_h == pytest.approx(1 / (1 / 0.28 + 1000))
    assert learned.interruptions_source.startswith("learned: 0 interruptions in 1e+03 own hours")


def test_where_nobody_stated_a_rate_none_is_learned(tmp_path):
    seen = Experience(instance_type="c7i.xlarge", purchase="spot", interruptions=3, hours=1.0)
    listed = load_offers(Settings(store=f"file://{tmp_path}"), today=TODAY, experience=(seen,))
    assert all(o.interruptions_per_h is None for o in listed.offers if o.instance_type == "c7i.xlarge")


def test_a_refused_price_is_named_with_its_reason(tmp_path):
    before = date(2020, 1, 1)  # of every price of the bundled list
    listed = load_offers(Settings(store=f"file://{tmp_path}"), today=before)
    [note] = [note for note in listed.notes if "price refused" in note]
    refused = [o.name for o in listed.offers if any(flag.startswith("price refused") for flag in o.flags)]
    assert note.startswith(f"{refused[0]}: price refused: price is dated 2025-")
    assert note.count("price refused") == 3
    assert note.endswith(f"; and {len(refused) - 3} more")
