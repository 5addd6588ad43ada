"""Real steps with the series of a training, on the CPU in place of a GPU."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from include.core.contracts.device_profile import DeviceProfile
from include.core.contracts.diagnosis import Slowness
from include.core.json_codec import from_json, to_json
from include.jobs import profile_device, profile_model
from include.jobs.profile_device import profile_on
from include.parallel.layout import Execution
from include.sizing.demand import layout_of
from include.sizing.trace import StepShape
from include.training.telemetry.facts import RankTelemetry

NOWHERE = "http://127.0.0.1:9/metrics"


def shape(build=None, **execution):
    layers = build or (lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 3)))
    return StepShape(
        build=layers, input_shape=(32,), classes=3, batch=16, optimizer="adamw",
        execution=Execution(**{"micro_batch": 16, "precision": "fp32", **execution}),
    )  # fmt: skip


def profiled(found, folder, **more):
    return profile_on(torch.device("cpu"), found, layout=layout_of(found), folder=folder, dcgm_url=NOWHERE, **more)


@pytest.mark.parametrize("execution", [{}, {"precision": "bf16", "micro_batch": 4}])
def test_warm_steps_do_not_count_and_the_readers_of_a_training_look_on(execution, tmp_path):
    found = profiled(shape(**execution), tmp_path)
    assert (found.warm_steps, found.measured.steps, found.out_of_memory) == (5, 20, False)
    assert found.measured.step_s > 0
    assert found.measured.device == "cpu"
    assert found.measured.layout == layout_of(shape(**execution))
    assert found.sources["host"] == "answers"
    assert found.diagnosis.verdict in Slowness
    telemetry = from_json(RankTelemetry, json.loads((tmp_path / "telemetry.json").read_text()))
    assert telemetry.steps.steps == 20
    assert telemetry.steps.evaluated_s > 0, "the warm steps and what came before them"
    assert from_json(DeviceProfile, to_json(found)) == found


def test_a_slow_model_is_measured_by_a_few_steps(tmp_path):
    found = profiled(shape(), tmp_path, most_s=0.0)
    assert (found.warm_steps, found.measured.steps) == (1, 1)


def test_what_does_not_fit_is_told_and_no_error(tmp_path):
    class Greedy(nn.Linear):
        def forward(self, rows):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80 GiB")

    found = profiled(shape(lambda: Greedy(32, 3)), tmp_path)
    assert found.out_of_memory
    assert found.measured.steps == 0


def test_other_errors_stay_errors_and_nothing_is_left_changed(tmp_path):
    class Broken(nn.Linear):
        def forward(self, rows):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        profiled(shape(lambda: Broken(32, 3)), tmp_path)
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_gpu_is_measured_where_there_is_one(tmp_path, monkeypatch):
    asked = []

    def on_cpu(device, *arguments, **more):
        asked.append(str(device))
        return profile_device.profile_on(torch.device("cpu"), *arguments, **more)

    order = {"dcgm_url": NOWHERE, "folder": str(tmp_path)}
    assert profile_model._on_device(shape(), order) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(profile_model, "profile_on", on_cpu)
    assert from_json(DeviceProfile, profile_model._on_device(shape(), order)).measured.steps == 20
    assert asked == ["cuda:0"]


def test_a_device_that_fails_leaves_the_traced_demand(tmp_path, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(profile_model, "profile_on", failing)
    assert profile_model._on_device(shape(), {"dcgm_url": NOWHERE, "folder": str(tmp_path)}) is None
