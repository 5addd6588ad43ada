"""A profile on a GPU teaches by the code path of trainings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from include.catalog.loader import load_chips
from include.core.contracts.device_profile import DeviceProfile
from include.core.contracts.diagnosis import Diagnosis, Slowness
from include.core.contracts.measured import Measured
from include.core.contracts.plan import Layout
from include.ledger.corrections import corrections_of, lesson_of
from include.ledger.records import LedgerEvent
from include.sizing.demand_table import memory_of, work_of
from include.sizing.profile_lesson import profile_event
from include.sizing.roofline import device_s
from tests.support.textbook_demands import five

DEMAND = five()["resnet50"][0]
LAYOUT = Layout(precision="bf16", micro_batch=32)
MEMORY = 143_167 * 2**20


def profile(**fields):
    measured = {"steps": 20, "step_s": 0.05, "device": "NVIDIA H200", "peak_device_bytes": 5 * 10**9,
                "device_memory_bytes": MEMORY, "layout": LAYOUT}  # fmt: skip
    whole = {"warm_steps": 5, "out_of_memory": False, "sources": {"nvml": "answers"},
             "diagnosis": Diagnosis(verdict=Slowness.OK, reason="test")}  # fmt: skip
    of_measured = {name: fields.pop(name) for name in list(fields) if name in measured}
    return DeviceProfile(measured=Measured(**{**measured, **of_measured}), **{**whole, **fields})


def learned(found):
    body = profile_event(DEMAND, found)
    event = LedgerEvent(
        id=1, at="2026-11-30T10:00:00Z", kind="prediction", group_id=None, lease_id=None, generation=None, dag_id="d",
        run_id="r", job=None, attempt=None, reason=None, body=body,
    )  # fmt: skip
    lesson = lesson_of(event)
    assert lesson is not None
    return corrections_of([lesson])


def test_the_next_plan_corrects_step_and_memory_of_the_device():
    (found,) = learned(profile())
    chip = load_chips()["H200"]
    expected = device_s(
        work_of(DEMAND, LAYOUT), tflops=chip.tflops["bf16"], bandwidth=chip.memory_bandwidth_gb_per_s * 1e9
    )
    assert (found.family, found.device, found.precision, found.runs) == (DEMAND.family, "H200", "bf16", 1)
    assert found.time_ratio == pytest.approx(0.05 / expected)
    assert found.memory_ratio == pytest.approx(5 * 10**9 / memory_of(DEMAND, LAYOUT).total_bytes)


def test_too_few_steps_teach_memory_alone():
    (found,) = learned(profile(steps=3))
    assert found.time_ratio is None
    assert found.memory_ratio is not None


def test_running_out_of_memory_is_a_bound():
    (found,) = learned(profile(steps=0, step_s=None, out_of_memory=True))
    assert (found.time_ratio, found.memory_ratio) == (None, None)
    assert found.worst_memory_ratio is not None
    assert "ran out of memory" in found.flags[-1]


def test_an_unknown_device_teaches_nothing():
    assert profile_event(DEMAND, profile(device="NVIDIA GeForce RTX 4090")) is None
    slice_ = replace(profile().measured, device="NVIDIA H200 MIG 1g.18gb", device_memory_bytes=18 * 10**9)
    assert profile_event(DEMAND, replace(profile(), measured=slice_)) is None
