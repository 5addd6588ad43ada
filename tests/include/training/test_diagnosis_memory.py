from __future__ import annotations

import dataclasses

import pytest

from include.core.contracts.diagnosis import Finding
from include.training.diagnosis_evidence import Evidence, Missing
from include.training.diagnosis_memory import near_out_of_memory, oversized
from include.training.telemetry.facts import MachineFacts, RankTelemetry
from tests.support.diagnosis_series import GIB, device_series, gpu


def evidence(machine: MachineFacts, **series: float) -> Evidence:
    return Evidence([RankTelemetry(machine=machine, series=device_series(seed=5, **series))])


@pytest.mark.parametrize(("peak", "expected"), [(0.96, True), (0.9, False)])
def test_peak_of_the_tensors_decides_and_not_the_allocators_cache(peak: float, expected: bool) -> None:
    found = near_out_of_memory(evidence(gpu(peak=peak), gpu_memory_used_bytes=79.5 * GIB))
    assert isinstance(found, Finding) == expected


def test_any_rank_may_be_the_one_that_runs_out() -> None:
    ranks = [RankTelemetry(rank=rank, world=2, machine=gpu(peak=peak)) for rank, peak in enumerate((0.6, 0.98))]
    assert isinstance(near_out_of_memory(Evidence(ranks)), Finding)


def test_allocator_that_had_to_start_over_was_out_of_memory_already() -> None:
    found = near_out_of_memory(evidence(dataclasses.replace(gpu(peak=0.8), allocation_retries=3)))
    assert isinstance(found, Finding)
    assert "3 times" in found.reason


def test_memory_of_the_host_runs_out_too() -> None:
    found = near_out_of_memory(evidence(gpu(peak=0.5), host_memory_available_bytes=5 * GIB))
    assert isinstance(found, Finding)
    assert "loader workers" in found.fix
    assert near_out_of_memory(evidence(gpu(peak=0.5), host_memory_available_bytes=100 * GIB)) is None


@pytest.mark.parametrize(
    ("peak", "active", "expected"), [(0.4, 0.4, True), (0.6, 0.4, False), (0.4, 0.6, False), (0.15, 0.3, True)]
)
def test_both_halves_must_be_unused(peak: float, active: float, expected: bool) -> None:
    found = oversized(evidence(gpu(peak=peak), sm_active=active, gpu_busy=0.9))
    assert isinstance(found, Finding) == expected


def test_without_a_device_nothing_is_said_about_it() -> None:
    assert isinstance(oversized(evidence(MachineFacts())), Missing)
    assert isinstance(near_out_of_memory(evidence(MachineFacts())), Missing)
