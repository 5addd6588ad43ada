"""Step time on an offer."""

from __future__ import annotations

import pytest

from include.sizing.roofline import step_s
from tests.support.offers import demand, offer, this_machine


def test_this_machine_takes_what_was_measured_there():
    assert step_s(demand(cpu_s_per_step=0.02), this_machine(), batch=64, precision="fp32") == 0.02
    assert step_s(demand(cpu_s_per_step=0.02, vcpus=2), this_machine(), batch=64, precision="fp32") == 0.01


def test_arithmetic_and_traffic_add_up():
    # 64 x 6 GFLOP at 0.6 of 10 TFLOPS = 64 ms; 64 x 3.75 GB at 0.8 of 300 GB/s = 1 s
    needs = demand(flop_per_sample=6e9, bytes_moved_per_sample=3.75e9)
    assert step_s(needs, offer(), batch=64, precision="fp32") == pytest.approx(0.064 + 1.0)


def test_a_small_step_is_bound_by_its_launches():
    assert step_s(demand(ops_per_step=200), offer(), batch=1, precision="fp32") == pytest.approx(200 * 5e-6)


@pytest.mark.parametrize(
    ("where", "precision"),
    [
        (offer(accelerator_tflops={}), "fp32"),
        (offer(memory_bandwidth_bytes_per_s=None), "fp32"),
        (offer(), "bf16"),  # the datasheet has no such rate
        (offer(accelerator=None, accelerators=0, accelerator_tflops={}), "fp32"),
    ],
)
def test_without_facts_the_time_is_unknown(where, precision):
    assert step_s(demand(), where, batch=64, precision=precision) is None


def test_without_a_measurement_this_machine_is_unknown_too():
    assert step_s(demand(cpu_s_per_step=None), this_machine(), batch=64, precision="fp32") is None
