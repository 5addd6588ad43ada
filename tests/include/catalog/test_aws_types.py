"""Types as EC2 describes them: its three fields for accelerators, parts of them, and answers that make no sense."""

from __future__ import annotations

import pytest

from include.catalog.aws_types import accelerators_of, parse_types, wanted_types
from include.catalog.loader import load_chips
from include.core.errors import CatalogRefreshError
from tests.support.aws_answers import gpu, record

KNOWN = load_chips()


def parse(*records):
    regions = {entry["InstanceType"]: ["us-east-1"] for entry in records if "InstanceType" in entry}
    return parse_types(records, regions=regions, known=KNOWN)


def test_accelerated_families_and_listed_types_are_wanted():
    offered = [
        {"InstanceType": n} for n in ("p5.4xlarge", "gr6.4xlarge", "trn2.3xlarge", "m7i.large", "t3.nano", "c8g.large")
    ]
    assert wanted_types(offered, listed=("m7i.large",)) == {"p5.4xlarge", "gr6.4xlarge", "trn2.3xlarge", "m7i.large"}


@pytest.mark.parametrize(("memory_mib", "name"), [(40960, "A100-40GB"), (81920, "A100-80GB")])
def test_memory_tells_kinds_of_one_name_apart(memory_mib, name):
    found = accelerators_of(record("p4", **gpu("A100", count=8, memory_mib=memory_mib)), known=KNOWN)
    assert (found.name, found.count) == (name, 8)


def test_a_part_of_a_gpu_is_a_kind_of_its_own():
    part = gpu("L4", count=0, memory_mib=2861, GpuPartitionSize=0.125, LogicalGpuCount=1)
    found = accelerators_of(record("g6f.large", **part), known=KNOWN)
    assert (found.name, found.count, found.memory_mib) == ("L4-1/8", 1, 2861)


def test_neuron_devices_come_before_the_field_that_repeats_them():
    device = {"Name": "Inferentia", "Count": 4, "MemoryInfo": {"SizeInMiB": 8192}}
    both = record(
        "inf1.6xlarge",
        NeuronInfo={"NeuronDevices": [device]},
        InferenceAcceleratorInfo={"Accelerators": [{**device, "Count": 1, "Manufacturer": "AWS"}]},
    )
    found = accelerators_of(both, known=KNOWN)
    assert (found.name, found.count, found.software) == ("Inferentia", 4, "neuron")


def test_an_inference_accelerator_of_another_maker_needs_other_software():
    device = {"Name": "AI 100", "Manufacturer": "Qualcomm", "Count": 8, "MemoryInfo": {"SizeInMiB": 16384}}
    types, chips = parse(record("dl2q.24xlarge", InferenceAcceleratorInfo={"Accelerators": [device]}))
    assert types[0].chip == "AI 100"
    assert chips["AI 100"].software == "other"


def test_a_new_accelerator_is_taken_with_its_memory_alone():
    types, chips = parse(record("p9.48xlarge", **gpu("R100", count=8, memory_mib=294912)))
    assert (types[0].chip, types[0].count) == ("R100", 8)
    assert (chips["R100"].memory_mib, chips["R100"].tflops, chips["R100"].tdp_w) == (294912, {}, None)


def test_what_the_datasheet_says_holds_against_the_answer():
    device = {"Name": "Trainium2", "Count": 16, "MemoryInfo": {"SizeInMiB": 524288}}
    types, chips = parse(record("trn2.48xlarge", NeuronInfo={"NeuronDevices": [device]}))
    assert types[0].chip == "Trainium2"
    assert chips == {}


def test_bandwidth_is_what_all_cards_keep_up():
    cards = [{"BaselineBandwidthInGbps": 100.0, "PeakBandwidthInGbps": 100.0}] * 4
    network = {"NetworkPerformance": "4x 100 Gigabit", "NetworkCards": cards}
    types, _ = parse(record("p4d.24xlarge", **gpu("A100", count=8, memory_mib=40960), NetworkInfo=network))
    assert types[0].network_gbit_per_s == 400.0
    types, _ = parse(record("old.large", NetworkInfo={"NetworkPerformance": "Low"}))
    assert types[0].network_gbit_per_s is None


def test_types_that_nobody_can_start_one_of_are_left_out():
    assert parse(record("p6.block", SupportedUsageClasses=["capacity-block"])) == ((), {})
    assert parse(record("mac2.metal", ProcessorInfo={"SupportedArchitectures": ["arm64_mac"]})) == ((), {})


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (record("g5.x", VCpuInfo={}), "g5.x makes no sense: KeyError 'DefaultVCpus'"),
        (record("g5.x", VCpuInfo={"DefaultVCpus": -4}), "g5.x makes no sense: vcpus: "),
        (record("g5.x", **gpu("A10G", count=0, memory_mib=22888)), "g5.x makes no sense"),
        (record("g5.x", **gpu("A10G", count=1, memory_mib=0)), "g5.x makes no sense: memory_mib: "),
        (record("g5.x", MemoryInfo=None), "g5.x makes no sense: TypeError"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(broken, message):
    with pytest.raises(CatalogRefreshError, match=message):
        parse(broken)
