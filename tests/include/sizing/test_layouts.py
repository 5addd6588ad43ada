"""Layouts of a training, and the steps that they take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.config.settings import Settings
from include.core.contracts.plan import Layout
from include.parallel.layout import apply_layout
from include.sizing.assumptions import USABLE_MEMORY
from include.sizing.layouts import LayoutTable, divisors
from include.sizing.steps import StepTimes
from tests.support.exhaustive_plan import Search
from tests.support.offers import demand, offer
from tests.support.textbook_demands import GPT2, demand_of, ordered

NEEDS = demand_of(GPT2, micro_batch=8, steps=1000, family="gpt2")
GPUS = {
    "accelerators": 8,
    "accelerator_memory_bytes": 40 * 10**9,
    "accelerator_tflops": {"bf16": 300.0, "fp16": 300.0, "fp32": 20.0},
    "memory_bandwidth_bytes_per_s": 1.5e12,
    "interconnect_bytes_per_s": 3e11,
    "network_bytes_per_s": 5e10,
    "ram_bytes": 10**12,
    "vcpus": 96,
}


def table(needs=NEEDS, **order):
    return LayoutTable(needs, ordered(**{"batch_size": 48, **order}))


def times(needs=NEEDS, **order):
    return StepTimes(needs, ordered(**{"batch_size": 48, **order}))


def test_divisors():
    assert divisors(48) == (48, 24, 16, 12, 8, 6, 4, 3, 2, 1)
    assert divisors(1) == (1,)


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_every_layout_keeps_the_optimizer_step_and_can_be_run(workers, precision):
    needs = replace(
        NEEDS,
        tensor_bytes_per_sample=1e6,
        cases=tuple(replace(c, precision=precision) for c in NEEDS.cases if c.precision == "bf16"),
    )
    asked = table(needs, precision=precision)
    made = [layout for way in asked.ways(workers) for layout in asked.layouts(way)]
    assert len(made) == len(set(made))
    for layout in made:
        assert layout.workers == workers
        assert layout.data_parallel * layout.micro_batch * layout.accumulation == 48
        assert layout.precision == precision
        apply_layout(layout, batch_size=48)  # the trainer takes it
    if workers == 64:
        assert all(layout.tensor > 1 for layout in made)  # 48 samples are not divided among 64 workers


def test_tensor_parallel_only_where_its_bytes_are_known():
    unknown = replace(NEEDS, tensor_bytes_per_sample=None)
    assert all(way.mesh.tensor == 1 for way in table(unknown).ways(8))
    assert {way.mesh.tensor for way in table().ways(8)} == {1, 2, 4, 8}


def test_without_a_table_only_the_traced_micro_batch_is_known():
    plain = table(demand(micro_batch=24))
    assert plain.planned_as_traced
    assert list(plain.ways(1)) == []
    assert (plain.as_traced.micro_batch, plain.as_traced.accumulation) == (24, 2)


def test_the_largest_micro_batch_that_fits_is_taken():
    made = table()
    way = next(way for way in made.ways(1) if way.recompute == "off" and not way.offload)
    sizes = {layout.micro_batch: made.traced_bytes(layout) for layout in made.layouts(way)}
    assert made.largest_fitting(way, sizes[12]).layout.micro_batch == 12
    assert made.largest_fitting(way, sizes[12] - 1).layout.micro_batch == 8
    assert made.largest_fitting(way, sizes[1] - 1) is None


@pytest.mark.parametrize("memory", [4, 8, 40])
@pytest.mark.parametrize("instances", [1, 2])
def test_the_fastest_layout_is_the_fastest_of_all_that_fit(memory, instances):
    where = offer(**{**GPUS, "accelerator_memory_bytes": memory * 10**9})
    order = ordered(batch_size=48)
    best = StepTimes(NEEDS, order).best(where, instances)
    everything = Search(NEEDS, order, [where], Settings()).steps(where)
    assert len(everything) > 50
    assert best.step_s == min(step.step_s for count, step in everything if count == instances)
    assert best.peak_bytes <= USABLE_MEMORY * where.accelerator_memory_bytes


def test_several_instances_only_of_what_is_rented_and_linked_by_a_known_network():
    asked = times()
    assert asked.counts(offer(**GPUS)) == (1, 2, 4, 8)
    for changes in (
        {"network_bytes_per_s": None},
        {"mig_profile": "1g.5gb"},
        {"purchase": "local"},
        {"engine": "local"},
    ):
        assert asked.counts(offer(**{**GPUS, **changes})) == (1,), changes


def test_a_partition_has_one_worker():
    part = offer(**{**GPUS, "mig_profile": "3g.20gb", "accelerators": 1, "accelerator_memory_bytes": 20 * 10**9})
    assert times().best(part, 1).layout.workers == 1


def test_cores_that_cannot_keep_up_set_the_step():
    slow = replace(NEEDS, loader_samples_per_core_s=0.5)
    few, many = (times(slow).best(offer(**{**GPUS, "vcpus": n}), 1) for n in (16, 96))
    assert few.step_s == pytest.approx(48 / (0.5 * 8))
    assert few.parts["data"] == few.step_s
    assert few.busy < many.busy < 1
    assert few.layout == many.layout


def test_a_worker_on_every_accelerator_needs_host_memory_for_each():
    cramped = offer(**{**GPUS, "ram_bytes": 12_500_000_000})
    assert times().best(cramped, 1).layout.workers == 2  # 4 GB for each process, and 1.5 GB for its checkpoint


def test_an_accelerator_without_a_backend_is_refused_by_name():
    trainium = offer(**{**GPUS, "accelerator": "Trainium2"})
    assert times().unknown(trainium) == "the trainer has no backend for Trainium2"


def test_the_host_holds_a_copy_of_what_each_worker_saves():
    order = ordered(batch_size=64)
    steps = StepTimes(replace(NEEDS, checkpoint_bytes=64 * 10**9, tensor_share=0.5), order)
    alone, where = NEEDS.host_ram_bytes, offer(accelerators=8)
    held = {
        (1, 1, 1): alone + 64e9,
        (8, 1, 1): 8 * (alone + 64e9),
        (1, 8, 1): 8 * alone + 64e9,
        (1, 1, 2): 2 * alone + 96e9,
    }
    for (replicate, shard, tensor), size in held.items():
        assert steps.host_bytes(where, Layout(replicate=replicate, shard=shard, tensor=tensor)) == pytest.approx(size)


def test_a_host_too_small_for_the_copy_of_a_checkpoint_is_not_taken():
    where = offer(**{**GPUS, "accelerators": 1, "ram_bytes": NEEDS.host_ram_bytes + 10 * 10**9})
    order = ordered(batch_size=64)
    small, large = (StepTimes(replace(NEEDS, checkpoint_bytes=size), order) for size in (10**9, 20 * 10**9))
    assert small.best(where, 1) is not None
    assert large.best(where, 1) is None
