"""The profile on a real device: series, peak and what the planner learns of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from include.catalog.driver_names import chip_of
from include.jobs.profile_device import profile_on
from include.parallel.layout import Execution
from include.sizing.demand import layout_of
from include.sizing.profile_lesson import profile_event
from include.sizing.trace import StepShape
from include.sizing.trace_cases import trace_case
from tests.support.traced import demand_of

pytestmark = pytest.mark.gpu
NOWHERE = "http://127.0.0.1:9/metrics"
WIDTH = 4096


def test_a_profile_gives_corrections_of_its_device(tmp_path: Path) -> None:
    def build() -> nn.Module:
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(8)]
        return nn.Sequential(*layers, nn.Linear(WIDTH, 1000))

    shape = StepShape(
        build=build, input_shape=(WIDTH,), classes=1000, batch=256, optimizer="adamw",
        execution=Execution(micro_batch=256, precision="bf16"),
    )  # fmt: skip
    device, layout = torch.device("cuda", 0), layout_of(shape)
    found = profile_on(device, shape, layout=layout, folder=tmp_path, dcgm_url=NOWHERE)
    assert (found.warm_steps, found.measured.steps, found.out_of_memory) == (5, 20, False)
    assert found.sources["nvml"] == "answers"
    assert found.measured.device == torch.cuda.get_device_name(device)
    event = profile_event(demand_of(trace_case(shape), sample_bytes=4 * WIDTH + 8), found)
    if chip_of(found.measured.device, found.measured.device_memory_bytes) is None:
        assert event is None, "the catalog does not know this device"
        return
    assert event is not None
    memory, step = event["memory"], event["step"]
    assert 0.7 <= memory["measured_bytes"] / memory["predicted_bytes"] <= 1.1
    assert step["measured_s"] > 0
    assert 0.1 <= step["measured_s"] / step["predicted_s"] <= 10.0


def test_a_batch_that_does_not_fit_is_told(tmp_path: Path) -> None:
    shape = StepShape(
        build=lambda: nn.Linear(1024, 10), input_shape=(1024,), classes=10, batch=16, optimizer="adamw",
        execution=Execution(micro_batch=16, precision="fp32"),
    )  # fmt: skip
    torch.cuda.set_per_process_memory_fraction(1e-9)
    torch.cuda.empty_cache()
    try:
        found = profile_on(torch.device("cuda", 0), shape, layout=layout_of(shape), folder=tmp_path, dcgm_url=NOWHERE)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert found.out_of_memory
