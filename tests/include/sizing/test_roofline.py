"""Step time of one worker."""

from __future__ import annotations

import pytest

from include.sizing.demand_table import StepWork
from include.sizing.roofline import device_s, local_s
from tests.support.offers import demand


def test_this_machine_takes_what_was_measured_there():
    assert local_s(demand(cpu_s_per_step=0.02)) == 0.02
    assert local_s(demand(cpu_s_per_step=0.02, vcpus=2)) == 0.01
    assert local_s(demand(cpu_s_per_step=None)) is None


def test_arithmetic_and_traffic_add_up():
    # 384 GFLOP at 0.6 of 10 TFLOPS = 64 ms; 240 GB at 0.8 of 300 GB/s = 1 s
    work = StepWork(flop=384e9, bytes_moved=240e9, ops=10)
    assert device_s(work, tflops=10.0, bandwidth=3e11) == pytest.approx(0.064 + 1.0)


def test_a_small_step_is_bound_by_its_launches():
    work = StepWork(flop=1.0, bytes_moved=1.0, ops=200)
    assert device_s(work, tflops=10.0, bandwidth=3e11) == pytest.approx(200 * 5e-6)
