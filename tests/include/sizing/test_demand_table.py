"""Memory and work of a layout from a table of which every figure is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from include.core.contracts.demand import PeakLine, StepCase
from include.core.contracts.plan import Layout
from include.sizing.demand_table import memory_of, work_of
from include.sizing.trace_lines import Moments, Work, peaks
from tests.support.traced import demand_of


def line(fixed, saved=0.0, loss=0.0, passing=0.0):
    return PeakLine(
        fixed_bytes=fixed,
        activations_bytes_per_sample=saved,
        loss_bytes_per_sample=loss,
        temporary_bytes_per_sample=passing,
    )


WHOLE = StepCase(
    precision="fp32", recompute="off", shard=1, optimizer="adamw", parameters_bytes=1000, gradients_bytes=800,
    optimizer_bytes=1600, backward_bytes=-800, activations_bytes_per_sample=50.0, loss_bytes_per_sample=6.0,
    temporary_bytes_per_sample=4.0, update_bytes=800, flop_per_sample=7.0, bytes_moved_per_sample=3.0,
    bytes_moved_per_update=90.0, ops_per_pass=40, ops_per_update=5, bytes_moved_per_pass=20.0,
    further_peaks=(line(100, saved=10.0),), bare_peaks=(line(0, saved=50.0),), offload_peaks=(line(500, saved=50.0),),
    replica_bytes=800,
)  # fmt: skip
HALF = replace(
    WHOLE, shard=2, parameters_bytes=600, gradients_bytes=400, optimizer_bytes=800, backward_bytes=300,
    bare_peaks=(line(700, saved=50.0),), offload_peaks=(), update_bytes=400, replica_bytes=0, further_peaks=(),
)  # fmt: skip
DEMAND = demand_of(WHOLE, HALF, sample_bytes=2)
LAYOUT = Layout(precision="fp32")


def total(**fields):
    return memory_of(DEMAND, replace(LAYOUT, **fields)).total_bytes


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"micro_batch": 1}, 3400 + 800 + 2),  # the update is the peak
        ({"micro_batch": 28}, 3400 - 800 + 60 * 28),  # forward and backward, just above it
        ({"micro_batch": 100}, 3400 - 800 + 60 * 100),
        ({"micro_batch": 100, "accumulation": 3}, 3400 + 50 * 100 + 2 * 100 * 2),  # gradients are held throughout
        ({"micro_batch": 100, "replicate": 2}, 3400 - 800 + 60 * 100 + 800),
        ({"micro_batch": 100, "shard": 2}, 1800 + 300 + 60 * 100),
        # over several passes the whole gradients are held, not the shard's
        ({"micro_batch": 100, "shard": 2, "accumulation": 2}, 600 + 800 + 800 + 700 + 50 * 100 + 100 * 2),
        ({"micro_batch": 100, "offload": True}, 500 + 50 * 100),
        ({"micro_batch": 100, "offload": True, "accumulation": 2}, 800 + 500 + 50 * 100 + 100 * 2),
    ],
)
def test_the_peak_of_a_layout(fields, expected):
    assert total(**fields) == expected


def test_components_add_up_and_offloaded_states_are_elsewhere():
    found = memory_of(DEMAND, replace(LAYOUT, micro_batch=100))
    assert (found.parameters_bytes, found.gradients_bytes, found.optimizer_bytes) == (1000, 800, 1600)
    assert found.activations_bytes == 5000
    away = memory_of(DEMAND, replace(LAYOUT, micro_batch=100, offload=True))
    assert (away.parameters_bytes, away.gradients_bytes, away.optimizer_bytes) == (0, 0, 0)


def test_a_peak_before_the_gradients_are_complete_holds_fewer_of_them():
    early = demand_of(replace(WHOLE, loss_bytes_per_sample=0.0, temporary_bytes_per_sample=0.0), sample_bytes=2)
    found = memory_of(early, replace(LAYOUT, micro_batch=100))
    assert (found.gradients_bytes, found.activations_bytes, found.temporary_bytes) == (0, 5000, 0)


def test_tensor_ranks_divide_the_share_that_can_be_divided():
    found = memory_of(replace(DEMAND, tensor_share=0.5), replace(LAYOUT, micro_batch=100, tensor=2))
    assert (found.parameters_bytes, found.optimizer_bytes) == (750, 1200)


def test_what_is_not_in_the_table_is_not_known():
    assert memory_of(DEMAND, Layout(precision="bf16")) is None
    assert work_of(DEMAND, Layout(shard=4)) is None


def test_work_grows_with_samples_and_passes():
    found = work_of(DEMAND, replace(LAYOUT, micro_batch=10, accumulation=3))
    assert (found.flop, found.bytes_moved, found.ops) == (7.0 * 30, 3.0 * 30 + 20.0 * 3 + 90.0, 40 * 3 + 5)


def test_the_highest_moment_of_each_micro_batch_is_kept():
    nothing = Work(flop=0.0, bytes_moved=0.0, ops=0.0)
    fixed, slopes = np.array([100.0, 40.0, 0.0, 50.0]), np.array([1.0, 10.0, 20.0, 2.0])
    moments = Moments(
        names=("a", "b", "c", "d"), boundary=2, fixed=np.stack([fixed, fixed * 0, fixed * 0], axis=1),
        slopes=np.stack([slopes, slopes * 0, slopes * 0], axis=1), gradients=np.zeros(4), held_gradients=0.0,
        per_pass=nothing, per_sample=nothing,
    )  # fmt: skip
    found = peaks(moments, gradients=moments.gradients, less=0.0)
    for batch in range(1, 50):
        assert max(kept.bytes_at(batch) for kept in found) == max(fixed + slopes * batch)
    assert len(found) == 2
