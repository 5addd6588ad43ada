"""Integrity of the bundled catalog, and what a damaged one says."""

from __future__ import annotations

import json
from datetime import date

import pytest
from pydantic import ValidationError

from include.catalog.catalog_file import CATALOG, read_catalog
from include.catalog.loader import load_catalog
from include.core.contracts.offer import PurchaseOption

OFFERS = load_catalog()


@pytest.fixture
def damaged(tmp_path):
    """``damaged(change)``: the catalog file after a change to its JSON."""

    def write(change):
        document = json.loads(CATALOG.read_text())
        change(document)
        path = tmp_path / "catalog.json"
        path.write_text(json.dumps(document))
        return path

    return write


def entry(document, name):
    return next(t for t in document["types"] if t["type"] == name)


def test_there_are_enough_types_priced_and_of_both_kinds():
    assert len({o.instance_type for o in OFFERS}) >= 25
    assert len({o.instance_type for o in OFFERS if o.price}) >= 25
    assert {o.accelerators > 0 for o in OFFERS} == {True, False}


def test_every_fact_and_price_has_a_date_and_a_source():
    for offer in OFFERS:
        assert date.fromisoformat(offer.facts_as_of) <= date(2026, 12, 31)
        assert offer.facts_source
        if offer.price is not None:
            assert float(offer.price.usd_per_h) > 0
            assert date.fromisoformat(offer.price.as_of)
            assert "second-hand" in offer.price.source
            assert offer.price.method == "quoted"


def test_spot_is_listed_without_a_price():
    spot = [o for o in OFFERS if o.purchase is PurchaseOption.SPOT]
    assert spot
    assert all(o.price is None for o in spot)


def test_names_are_unique():
    assert len({o.name for o in OFFERS}) == len(OFFERS)


def test_gpu_fields_belong_together():
    for offer in OFFERS:
        gpu = offer.accelerators > 0
        assert (offer.accelerator is not None) == gpu
        assert (offer.accelerator_memory_bytes is not None) == gpu
        if offer.accelerator_tflops:
            assert gpu
            assert "datasheet" in offer.facts_source
            assert offer.memory_bandwidth_bytes_per_s > 1e11
        # a datasheet's dense half-precision rate lies above its fp32 rate
        assert offer.accelerator_tflops.get("fp16", 1e9) > offer.accelerator_tflops.get("fp32", 0)


def test_known_figures():
    by_name = {o.name: o for o in OFFERS}
    small = by_name["g4dn.xlarge/on-demand/us-east-1"]
    assert (small.price.usd_per_h, small.price.as_of) == ("0.526", "2025-11-30")
    assert (small.accelerator, small.accelerators, small.vcpus) == ("T4", 1, 4)
    assert small.accelerator_memory_bytes == 16 * 2**30
    assert small.accelerator_tflops == {"fp16": 65.0, "fp32": 8.1}
    large = by_name["p5.48xlarge/on-demand/us-east-1"]
    assert (large.price.usd_per_h, large.accelerators) == ("55.04", 8)


def test_without_a_source_there_is_no_figure():
    graviton = next(o for o in OFFERS if o.instance_type == "g5g.xlarge")  # nobody published a datasheet of its T4G
    assert graviton.accelerator_tflops == {}
    assert graviton.memory_bandwidth_bytes_per_s is None
    assert (graviton.idle_w, graviton.peak_w) == (None, None)
    assert graviton.power_source == "unknown: no published power of T4g"


def test_every_power_says_how_it_was_estimated():
    for offer in OFFERS:
        assert (offer.idle_w is None) == (offer.peak_w is None)
        assert offer.power_source.startswith("estimated: " if offer.peak_w else "unknown: ")
        if offer.peak_w is not None:
            assert 0 < offer.idle_w < offer.peak_w


def test_power_of_an_instance_is_its_accelerators_and_its_share_of_a_host():
    p4d = next(o for o in OFFERS if o.instance_type == "p4d.24xlarge")
    memory_w = 0.392 * 1179648 * 2**20 / 1e9
    assert p4d.peak_w == pytest.approx(8 * 400 + 96 * 3.5 + memory_w)
    assert p4d.idle_w == pytest.approx(8 * 46 + 96 * 0.74 + memory_w)


def test_what_the_train_job_cannot_use_has_no_rate_and_says_so():
    trainium = next(o for o in OFFERS if o.instance_type == "trn1.2xlarge")
    assert trainium.accelerator_tflops == {}
    assert trainium.flags == ("no CUDA device but neuron: the train job cannot use it",)
    assert trainium.memory_bandwidth_bytes_per_s == 820e9


def test_links_within_and_between_instances():
    by_type = {o.instance_type: o for o in OFFERS}
    assert by_type["p5.48xlarge"].interconnect_bytes_per_s == 450e9
    assert by_type["p5.48xlarge"].network_bytes_per_s == 400e9
    assert by_type["g4dn.12xlarge"].interconnect_bytes_per_s == 15.75e9
    assert by_type["g4dn.xlarge"].interconnect_bytes_per_s is None  # a single accelerator has nobody to talk to
    assert by_type["g4dn.xlarge"].network_bytes_per_s == 0.625e9  # "Up to 25 Gigabit" are 5 without bursts


def test_only_whole_accelerators_that_can_be_cut_have_profiles():
    by_type = {o.instance_type: o for o in OFFERS}
    assert "3g.40gb" in by_type["p4de.24xlarge"].mig_profiles
    assert by_type["g6.xlarge"].mig_profiles == ()
    assert all(o.mig_profile is None for o in OFFERS)


def test_interruptions_of_accelerators_are_stated_with_their_source():
    for offer in OFFERS:
        assert (offer.interruptions_per_h is None) == (offer.interruptions_source is None)
        assert (offer.interruptions_per_h is not None) == (offer.accelerators > 0)
    rates = {o.name: o.interruptions_per_h for o in OFFERS}
    assert rates["g5.xlarge/spot/us-east-1"] > rates["g5.xlarge/on-demand/us-east-1"] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: entry(d, "g4dn.xlarge")["usd_per_h"].update({"us-east-1": "0"}), "positive decimal"),
        (lambda d: entry(d, "g4dn.xlarge")["usd_per_h"].update({"us-east-1": "-1"}), "positive decimal"),
        (lambda d: entry(d, "g4dn.xlarge")["usd_per_h"].update({"us-east-1": "nan"}), "positive decimal"),
        (lambda d: entry(d, "g4dn.xlarge")["usd_per_h"].update({"us-east-1": "cheap"}), "positive decimal"),
        (lambda d: entry(d, "g4dn.xlarge")["usd_per_h"].update({"mars-1": "1"}), "not among its regions"),
        (lambda d: entry(d, "g4dn.xlarge").update(count=0), "go together"),
        (lambda d: entry(d, "c7i.xlarge").update(count=1), "go together"),
        (lambda d: entry(d, "g4dn.xlarge").update(chip="T5"), "unknown chips"),
        (lambda d: d["types"].append(entry(d, "g4dn.xlarge")), "listed twice"),
        (lambda d: d["chips"]["T4"].update(source=None), "need 'source'"),
        (lambda d: d["chips"]["T4"].update(idle_source=None), "needs 'idle_source'"),
        (lambda d: d.update(currency="EUR"), "currency"),
        (lambda d: d["prices"].update(as_of="yesterday"), "as_of"),
        (lambda d: d["prices"].update(source=""), "source"),
        (lambda d: d["chips"]["T4"]["tflops"].update(fp32=-1), "greater than 0"),
        (lambda d: d.update(typo=1), "typo"),
    ],
)
def test_a_damaged_catalog_is_refused(damaged, change, message):
    with pytest.raises(ValidationError, match=message):
        read_catalog(damaged(change))
