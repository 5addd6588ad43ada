"""The user's catalog file: the shipped example, one line per mistake, partitions and commitments."""

from __future__ import annotations

from datetime import date

import pytest
import yaml

from include.catalog.loader import load_catalog
from include.catalog.offers import load_offers
from include.catalog.own_file import EXAMPLE, read_own_catalog
from include.catalog.own_offers import OwnFile, committed_offers
from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption
from include.core.errors import UserError

TODAY = date(2026, 11, 30)
MACHINE = {
    "name": "box",
    "engine": "slurm",
    "region": "eu-north-1",
    "vcpus": 8,
    "ram_gib": 64,
    "usd_per_h": 0.4,
    "price_as_of": "2026-11-01",
    "price_source": "a test",
}
COMMITMENT = {
    "instance_type": "p4d.24xlarge",
    "kind": "reservation",
    "region": "us-east-1",
    "usd_per_h": "12.5",
    "price_as_of": "2026-11-01",
    "price_source": "a test",
    "until": "2027-11-30",
}


@pytest.fixture
def offers_of(tmp_path):
    """``offers_of(document)``: own offers of a file with this content, by name."""

    def load(document):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({"currency": "USD", **document}))
        settings = Settings(store=f"file://{tmp_path}/store", catalog_file=str(path))
        listed = load_offers(settings, today=TODAY)
        rented = {offer.name for offer in load_catalog()}
        return {offer.name: offer for offer in listed.offers if offer.name not in rented}, listed.notes

    return load


def test_the_example_can_be_used(tmp_path):
    settings = Settings(store=f"file://{tmp_path}/store", catalog_file=str(EXAMPLE))
    listed = load_offers(settings, today=TODAY)
    by_name = {offer.name: offer for offer in listed.offers}
    assert len(by_name) == len(listed.offers)
    single, double = by_name["rack-a100-single/local/eu-north-1"], by_name["rack-a100-double/local/eu-north-1"]
    assert (single.accelerators, double.accelerators) == (1, 2)
    assert (single.interconnect_bytes_per_s, double.interconnect_bytes_per_s) == (None, 31.5e9)
    assert (single.price.usd_per_h, single.price.as_of, single.flags) == ("1.2", "2026-11-01", ())
    assert by_name["g5.xlarge/reserved/us-east-1"].price.usd_per_h == "0.634"
    assert sum(name.startswith("mig-node:") for name in by_name) == 6


def test_a_partition_has_its_share_of_the_machine(offers_of):
    machine = {**MACHINE, "accelerator": "A100-40GB", "accelerators": 2, "mig": True, "usd_per_h": 4}
    found, _ = offers_of({"machines": [machine]})
    whole, third = found["box/local/eu-north-1"], found["box:3g.20gb/local/eu-north-1"]
    assert (third.accelerators, third.mig_profile, third.mig_profiles) == (1, "3g.20gb", ())
    assert third.accelerator_memory_bytes == round(0.95 * whole.accelerator_memory_bytes / 2)
    assert third.accelerator_tflops["bf16"] == whole.accelerator_tflops["bf16"] * 3 / 8
    assert third.memory_bandwidth_bytes_per_s == whole.memory_bandwidth_bytes_per_s / 2
    assert (third.vcpus, third.ram_bytes) == (2, whole.ram_bytes // 4)
    assert (third.price.usd_per_h, third.price.method) == ("1", "estimated")
    assert any(flag.startswith("estimated price") for flag in third.flags)


def test_stated_powers_and_interruptions_come_first(offers_of):
    machine = {**MACHINE, "idle_w": 50, "peak_w": 300, "interruptions_per_h": 0.01}
    stated = offers_of({"machines": [machine]})[0]["box/local/eu-north-1"]
    assert (stated.idle_w, stated.peak_w, stated.power_source) == (50, 300, "stated, not measured")
    assert (stated.interruptions_per_h, stated.interruptions_source) == (0.01, "stated by the user")
    estimated = offers_of({"machines": [MACHINE]})[0]["box/local/eu-north-1"]
    assert estimated.power_source.startswith("estimated: 8 vCPU")
    assert estimated.interruptions_per_h is None


def test_a_commitment_is_the_rented_type_at_its_price(offers_of):
    found, _ = offers_of({"commitments": [COMMITMENT]})
    offer = found["p4d.24xlarge/reserved/us-east-1"]
    listed = next(o for o in load_catalog() if o.instance_type == "p4d.24xlarge")
    assert (offer.purchase, offer.price.usd_per_h, offer.engine) == (PurchaseOption.RESERVED, "12.5", "ec2")
    assert (offer.accelerators, offer.vcpus, offer.peak_w) == (listed.accelerators, listed.vcpus, listed.peak_w)
    assert offer.flags == ("reservation until 2027-11-30",)


def test_a_commitment_that_is_over_is_left_out_and_said(offers_of):
    found, notes = offers_of({"commitments": [{**COMMITMENT, "until": "2026-11-29"}]})
    assert found == {}
    assert "reservation of p4d.24xlarge ended on 2026-11-29 and is left out" in notes


def test_a_commitment_holds_on_its_last_day(tmp_path):
    catalog = read_own_catalog(EXAMPLE)
    own = OwnFile(path="mine.yaml", catalog=catalog)
    last = catalog.commitments[0].until
    offers, notes = committed_offers(own, rented=load_catalog(), today=last)
    assert (len(offers), notes) == (1, ())


def test_an_old_own_price_is_flagged(offers_of):
    found, _ = offers_of({"machines": [{**MACHINE, "price_as_of": "2025-01-01"}]})
    assert found["box/local/eu-north-1"].flags == ("stale price: 698 days old, stale after 90",)


def without(key):
    return {name: value for name, value in MACHINE.items() if name != key}


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (
            {"machines": [{**MACHINE, "usd_per_h": -1}]},
            "machines.0.usd_per_h: found '-1' | allowed: must be a positive",
        ),
        ({"machines": [{**MACHINE, "usd_per_h": 0}]}, "machines.0.usd_per_h: found '0' | allowed: must be a positive"),
        ({"machines": [{**MACHINE, "usd_per_h": True}]}, "machines.0.usd_per_h: found True | allowed: "),
        ({"machines": [{**MACHINE, "vcpus": -8}]}, "machines.0.vcpus: found -8 | allowed: "),
        ({"machines": [{**MACHINE, "ram_gib": 0}]}, "machines.0.ram_gib: found 0 | allowed: "),
        ({"machines": [without("vcpus")]}, "machines.0.vcpus: missing"),
        ({"machines": [without("engine")]}, "machines.0.engine: missing"),
        ({"machines": [without("price_as_of")]}, "machines.0.price_as_of: missing"),
        ({"machines": [without("price_source")]}, "machines.0.price_source: missing"),
        (
            {"machines": [{**MACHINE, "region": "moon-1"}]},
            "machines.0.region: found 'moon-1' | allowed: one of af-south",
        ),
        ({"machines": [{**MACHINE, "gpus": 2}]}, "machines.0.gpus: unknown key, found 2 | allowed: region, usd_per_h"),
        ({"machines": [MACHINE, MACHINE]}, "listed twice: box"),
        ({"machines": [{**MACHINE, "name": "this-machine"}]}, "a name other than 'this-machine'"),
        ({"machines": [{**MACHINE, "accelerators": 2}]}, "'accelerator' and 'accelerators' go together"),
        ({"machines": [{**MACHINE, "peak_w": 300}]}, "'idle_w' and 'peak_w' go together"),
        ({"machines": [{**MACHINE, "idle_w": 301, "peak_w": 300}]}, "'idle_w' must not be above 'peak_w'"),
        ({"machines": [{**MACHINE, "accelerator": "T5", "accelerators": 1}]}, "accelerator is not described"),
        ({"machines": [{**MACHINE, "accelerator": "T4", "accelerators": 1, "mig": True}]}, "without known partitions"),
        ({"machines": [{**MACHINE, "mig": True}]}, "without known partitions"),
        ({"accelerators": {"X": {"memory_mib": 1, "tdp_w": 9}}}, "datasheet figures need 'source' and 'as_of'"),
        ({"commitments": [COMMITMENT, COMMITMENT]}, "listed twice: p4d.24xlarge in us-east-1"),
        ({"commitments": [{**COMMITMENT, "instance_type": "p4x.large"}]}, "unknown instance type"),
        ({"commitments": [{**COMMITMENT, "kind": "gift"}]}, "commitments.0.kind: found 'gift'"),
        ({"currency": "EUR"}, "currency: found 'EUR' | allowed: "),
        (
            {"machines": [{**MACHINE, "accelerator": "T4", "accelerators": 10**12}]},
            "machines.0.accelerators: found 1000",
        ),
        ({"machines": [{**MACHINE, "ram_gib": 1e300}]}, "machines.0.ram_gib: found 1e+300 | allowed: "),
        ({"machines": [{**MACHINE, "vcpus": 10**12}]}, "machines.0.vcpus: found 1000000000000 | allowed: "),
        ({"machines": [{**MACHINE, "network_gbit_per_s": float("inf")}]}, "'.inf' is not a finite number"),
        ({"machines": [{**MACHINE, "interruptions_per_h": float("nan")}]}, "'.nan' is not a finite number"),
        ({"machines": [{**MACHINE, "name": "g5.xlarge"}]}, "a machine has the name of a rented type"),
        ({"commitments": [{**COMMITMENT, "zone": "eu-north-1a"}]}, "'zone' is one of region us-east-1"),
        ({"commitments": [{**COMMITMENT, "zone": "us-east-1"}]}, "'zone' is one of region us-east-1"),
        (
            {"commitments": [{**COMMITMENT, "kind": "savings-plan", "zone": "us-east-1a"}]},
            "'zone' goes with a reservation",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(offers_of, document, line):
    with pytest.raises(UserError) as error:
        offers_of(document)
    assert sum(line in text for text in str(error.value).splitlines()) == 1, str(error.value)


def test_every_mistake_has_a_line_of_its_own(offers_of):
    with pytest.raises(UserError) as error:
        offers_of({"machines": [{**MACHINE, "vcpus": -1, "region": "moon-1"}, without("engine")]})
    assert str(error.value).splitlines()[0] == "mine.yaml: 3 mistakes"


@pytest.mark.parametrize("content", ["- a\n", "", "a: [", "currency: !!python/none x\n"])
def test_what_is_no_catalog_is_said(tmp_path, content):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match=r"mine\.yaml"):
        read_own_catalog(path)


def test_a_file_that_is_too_long_is_told_so(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("# " + "x" * 300_000)
    with pytest.raises(UserError, match=r"the catalog file is too long.*mine\.yaml.*allowed: up to 262144 bytes"):
        read_own_catalog(path)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match="cannot read the catalog file"):
        read_own_catalog(tmp_path / "nowhere.yaml")


def test_the_file_in_the_how_to_can_be_used(offers_of):
    import re

    from include.config.settings import REPO

    page = (REPO / "docs" / "how-to" / "prices-and-own-machines.md").read_text()
    [example] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    found, _ = offers_of(yaml.safe_load(example))
    assert set(found) == {"rack-a100/local/eu-north-1", "g5.xlarge/reserved/us-east-1"}


def test_the_how_to_counts_the_bundled_types():
    from include.config.settings import REPO

    page = (REPO / "docs" / "how-to" / "prices-and-own-machines.md").read_text()
    offers = load_catalog()
    assert f"{len({offer.instance_type for offer in offers})} AWS types" in page
    assert len({offer.region for offer in offers}) == 6


@pytest.mark.parametrize("here", [0, 1, 2])
def test_a_machine_of_engine_local_has_no_more_gpus_than_this_one(offers_of, monkeypatch, here):
    monkeypatch.setattr("include.catalog.offers.nvml_devices", lambda: here)
    gpus = {"accelerator": "A100-80GB", "accelerators": 2}
    found, notes = offers_of(
        {
            "machines": [
                {**MACHINE, **gpus, "name": "mine", "engine": "local"},
                {**MACHINE, **gpus, "name": "rack"},
                {**MACHINE, "name": "plain", "engine": "local"},
            ]
        }
    )
    names = {name.partition("/")[0] for name in found}
    assert names == ({"mine", "rack", "plain"} if here == 2 else {"rack", "plain"})
    told = [note for note in notes if note.startswith("mine is left out: engine local launches on this machine")]
    assert len(told) == (0 if here == 2 else 1)
