"""Telemetry of a real device: what NVML and torch say of the same GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from include.core.json_codec import from_json
from include.training.diagnosis import diagnose
from include.training.telemetry.facts import GPU_BUSY, GPU_MEMORY_USED, GPU_POWER, RankTelemetry
from include.training.telemetry.recording import recording
from include.training.telemetry.step_timer import StepTimer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine"),
]
NOWHERE = "http://127.0.0.1:9/metrics"


def test_busy_device_is_seen_and_its_peak_is_what_was_allocated(tmp_path: Path) -> None:
    device = torch.device("cuda", 0)
    timer = StepTimer()
    torch.cuda.reset_peak_memory_stats(device)
    weight = torch.randn(8192, 8192, device=device)
    with recording(timer, folder=tmp_path, device=device, rank=0, world=1, dcgm_url=NOWHERE, profile_steps=2):
        end = time.monotonic() + 12
        while time.monotonic() < end:
            with timer.waiting():
                pass
            with timer.computing():
                (weight @ weight).sum().item()
            timer.end_step(samples=1)
    found = from_json(RankTelemetry, json.loads((tmp_path / "telemetry.json").read_text()))
    assert found.sources["nvml"] == "answers"
    assert found.series[GPU_BUSY].largest > 0.5
    assert found.series[GPU_POWER].largest > 0
    assert found.series[GPU_MEMORY_USED].largest >= weight.nbytes
    assert found.machine.device == torch.cuda.get_device_name(device)
    assert found.machine.device_peak_bytes >= 2 * weight.nbytes
    assert found.machine.pcie_bytes_per_s > 1e9
    assert list((tmp_path / "traces").glob("*.json.gz"))
    verdict = diagnose([found])
    assert verdict.verdict not in ("data-bound", "copy-bound", "near out of memory"), verdict
