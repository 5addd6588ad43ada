"""The refresh as a whole: what it writes, what plans see of it, and that a bad answer leaves the last good catalog."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from include.catalog.offers import load_offers
from include.catalog.refresh import refresh_catalog
from include.catalog.refreshed_file import KEY, read_refreshed
from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption
from include.core.errors import CatalogRefreshError
from tests.support.aws_answers import NOW, REGION, FakeClients, good_answers, product, record, spot

TODAY = NOW.date()


def refresh(store, answers=None, now=NOW):
    return refresh_catalog(store=store, clients=FakeClients(*(answers or good_answers())), regions=(REGION,), now=now)


def offers(store, *, today=TODAY, region=REGION):
    listed = load_offers(Settings(store=store.url), today=today)
    return [offer for offer in listed.offers if offer.region == region], listed.notes


def test_plans_see_what_was_refreshed(any_store):
    report = refresh(any_store)
    assert (report.types, report.on_demand_prices, report.spot_prices, report.refused) == (2, 2, 2, 0)
    found, _ = offers(any_store)
    priced = {offer.name: offer.price.usd_per_h for offer in found if offer.price}
    assert priced == {
        "g5.xlarge/on-demand/us-east-1": "1.006",
        "g5.xlarge/spot/us-east-1a": "0.402",
        "g5.xlarge/spot/us-east-1b": "0.45",
        "c7i.xlarge/on-demand/us-east-1": "0.1785",
    }
    assert all(not offer.flags for offer in found if offer.price)


def test_a_refreshed_type_has_the_facts_of_its_accelerator(file_store):
    refresh(file_store)
    g5 = next(offer for offer in offers(file_store)[0] if offer.zone == "us-east-1a")
    assert (g5.accelerator, g5.accelerators, g5.zone) == ("A10G", 1, "us-east-1a")
    assert g5.accelerator_tflops["bf16"] == 70.0
    assert g5.network_bytes_per_s == 2.5e9 / 8
    assert g5.peak_w > 300
    assert (g5.facts_as_of, g5.purchase) == (TODAY.isoformat(), PurchaseOption.SPOT)


def test_regions_that_were_not_asked_keep_the_bundled_list(file_store):
    before, _ = offers(file_store, region="eu-north-1")
    refresh(file_store)
    assert offers(file_store, region="eu-north-1")[0] == before


def test_types_that_the_region_does_not_offer_any_more_are_gone(file_store):
    refresh(file_store)
    assert {offer.instance_type for offer in offers(file_store)[0]} == {"g5.xlarge", "c7i.xlarge"}


def test_a_price_that_was_not_found_is_the_bundled_one_with_its_day(file_store):
    ec2, pricing = good_answers()
    pricing["get_products"]["PriceList"] = [product("c7i.xlarge", "0.1785")]
    refresh(file_store, (ec2, pricing))
    g5 = next(offer for offer in offers(file_store)[0] if offer.name == "g5.xlarge/on-demand/us-east-1")
    assert (g5.price.usd_per_h, g5.price.as_of) == ("1.006", "2025-11-30")
    assert g5.flags == ("stale price: 365 days old, stale after 90",)


def test_refreshed_prices_grow_old(file_store):
    refresh(file_store)
    found, notes = offers(file_store, today=TODAY + timedelta(days=8))
    flags = {offer.name: offer.flags for offer in found if offer.price}
    assert flags["g5.xlarge/spot/us-east-1a"] == ("stale price: 8 days old, stale after 7",)
    assert flags["g5.xlarge/on-demand/us-east-1"] == ()
    assert any("prices are stale" in note for note in notes)


BAD = {
    "no offerings": (0, "describe_instance_type_offerings", {"InstanceTypeOfferings": []}),
    "no accelerator": (0, "describe_instance_types", {"InstanceTypes": [record("c7i.xlarge")]}),
    "no types": (0, "describe_instance_types", {"InstanceTypes": []}),
    "a broken type": (0, "describe_instance_types", {"InstanceTypes": [record("g5.xlarge", VCpuInfo={})]}),
    "no spot prices": (0, "describe_spot_price_history", {"SpotPriceHistory": []}),
    "spot prices of 2006": (
        0,
        "describe_spot_price_history",
        {"SpotPriceHistory": [spot("g5.xlarge", "us-east-1a", "0.00001", age=timedelta(days=7600))]},
    ),
    "no list prices": (1, "get_products", {"PriceList": []}),
    "list prices of zero": (1, "get_products", {"PriceList": [product("g5.xlarge", "0"), product("c7i.xlarge", "0")]}),
    "an error": (1, "get_products", RuntimeError("the service is down")),
}


@pytest.mark.parametrize("case", BAD)
def test_the_last_good_catalog_stays_when_a_step_fails(file_store, case):
    refresh(file_store)
    good = file_store.get(KEY)
    which, operation, answer = BAD[case]
    answers = good_answers()
    answers[which][operation] = answer
    with pytest.raises((CatalogRefreshError, RuntimeError)):
        refresh(file_store, answers, now=NOW + timedelta(days=1))
    assert file_store.get(KEY) == good


def test_single_prices_that_make_no_sense_are_left_out_and_told(file_store):
    ec2, pricing = good_answers()
    history = [spot("g5.xlarge", f"us-east-1{zone}", "0.4") for zone in "abcdef"]
    ec2["describe_spot_price_history"]["SpotPriceHistory"] = [*history, spot("c7i.xlarge", "us-east-1a", "90")]
    report = refresh(file_store, (ec2, pricing))
    assert (report.spot_prices, report.refused) == (6, 1)
    assert "90 is implausible" in report.refused_examples[0]


def test_a_new_list_price_is_held_against_the_last_refreshed_one(file_store):
    refresh(file_store)
    ec2, pricing = good_answers()
    # nobody knew a price of this type before the first refresh
    pricing["get_products"]["PriceList"][1] = product("c7i.xlarge", "0.001785")
    with pytest.raises(CatalogRefreshError, match=r"implausible beside 0\.1785 before"):
        refresh(file_store, (ec2, pricing))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["quotes"][0].update(usd_per_h="-1"),
        lambda d: d["quotes"][0].update(type="t3.nano"),
        lambda d: d.update(types=[]),
        lambda d: d["types"][0].update(vcpus=0),
    ],
)
def test_a_damaged_file_is_not_used_and_said(file_store, change):
    refresh(file_store)
    bundled_before = read_refreshed(file_store)[0]
    assert bundled_before is not None
    document = json.loads(file_store.get(KEY))
    change(document)
    file_store.put(KEY, json.dumps(document).encode())
    found, notes = offers(file_store)
    assert any(KEY in note and "is damaged and not used" in note for note in notes)
    assert {offer.facts_as_of for offer in found} == {date(2026, 11, 30).isoformat()}
    assert len(found) > 100


@pytest.mark.integration
def test_moto_describes_the_types_as_the_bundled_list_has_them_and_its_spot_prices_are_refused(moto_endpoint):
    """Types and offerings are real there; prices of spot are a constant of 2006, which is no price."""
    import boto3

    from include.catalog import refresh as steps
    from include.catalog.loader import load_catalog

    class Clients:
        def ec2(self, region):
            # The server of the session: moto's patch of this process would empty it.
            return boto3.client(
                "ec2",
                endpoint_url=moto_endpoint,
                region_name=region,
                aws_access_key_id="x",
                aws_secret_access_key="x",
            )

    offered = {REGION: steps._offered(Clients().ec2(REGION), region=REGION, bundled=load_catalog())}
    types, chips = steps._types(Clients(), offered)
    with pytest.raises(CatalogRefreshError, match=r"0\.00001 has not changed for"):
        steps._spot(Clients(), types, regions=[REGION], on_demand={}, now=NOW)
    bundled = {offer.instance_type: offer for offer in load_catalog() if offer.region == REGION}
    assert {entry.type for entry in types} == bundled.keys()
    for entry in types:
        offer = bundled[entry.type]
        assert (entry.chip, entry.count, entry.vcpus) == (offer.accelerator, offer.accelerators, offer.vcpus)
        assert entry.ram_mib * 2**20 == offer.ram_bytes
    assert chips == {}
