from __future__ import annotations

import pytest

from include.core.contracts.diagnosis import Finding
from include.training.diagnosis_device import bandwidth_bound, batch_too_large, launch_bound, tensor_cores_idle
from include.training.diagnosis_evidence import Evidence, Missing, Rule
from include.training.telemetry.facts import RankTelemetry
from tests.support.diagnosis_series import device_series, gpu, step_facts


def evidence(*, steps=None, **series: float) -> Evidence:
    return Evidence([RankTelemetry(steps=steps, machine=gpu(), series=device_series(seed=4, **series))])


def found(rule: Rule, *, steps=None, **series: float) -> bool:
    return isinstance(rule(evidence(steps=steps, **series)), Finding)


@pytest.mark.parametrize("rule", [launch_bound, bandwidth_bound, tensor_cores_idle])
def test_rule_needs_more_than_utilisation(rule: Rule) -> None:
    assert isinstance(rule(evidence(gpu_busy=0.2)), Missing)


def test_small_kernels_are_launch_bound_whatever_the_utilisation() -> None:
    assert found(launch_bound, gpu_busy=0.95, sm_active=0.12)
    assert not found(launch_bound, gpu_busy=0.95, sm_active=0.4)


def test_resting_device_is_launch_bound_only_when_the_steps_are_short() -> None:
    assert found(launch_bound, gpu_busy=0.3, sm_active=0.1, steps=step_facts(step_s=0.005, compute=0.95))
    assert not found(launch_bound, gpu_busy=0.3, sm_active=0.1, steps=step_facts(step_s=0.2, compute=0.95))
    assert isinstance(launch_bound(evidence(gpu_busy=0.3, sm_active=0.1)), Missing)


def test_full_memory_bus_is_bandwidth_bound_unless_the_tensor_cores_are_used_too() -> None:
    assert found(bandwidth_bound, dram_active=0.7)
    assert not found(bandwidth_bound, dram_active=0.7, tensor_active=0.6)
    assert not found(bandwidth_bound, dram_active=0.5)


def test_idle_tensor_cores_count_on_a_device_that_works() -> None:
    assert found(tensor_cores_idle, sm_active=0.8, tensor_active=0.01)
    assert not found(tensor_cores_idle, sm_active=0.3, tensor_active=0.01)
    assert not found(tensor_cores_idle, sm_active=0.8, tensor_active=0.2)
    assert not found(tensor_cores_idle, sm_active=0.8, tensor_active=0.01, dram_active=0.7)


@pytest.mark.parametrize(
    ("rates", "busy", "expected"),
    [
        ([1000] * 10 + [800] * 10, 1.0, True),
        ([1000] * 10 + [800] * 10, 0.9, False),
        ([1000] * 10 + [950] * 10, 1.0, False),
        ([400] + [1000] * 19, 1.0, False),
        ([1000, 1010, 400, 990, 1005, 1000, 300, 1010, 995, 1000, 1005, 998], 1.0, False),
    ],
)
def test_throughput_must_fall_for_good_on_a_busy_device(rates: list[float], busy: float, expected: bool) -> None:
    assert found(batch_too_large, steps=step_facts(step_s=0.2, rate=rates, compute=0.9), gpu_busy=busy) == expected


def test_short_attempt_has_no_trend() -> None:
    steps = step_facts(step_s=0.2, rate=[1000, 800, 600], compute=0.9)
    assert isinstance(batch_too_large(evidence(steps=steps, gpu_busy=1.0)), Missing)
