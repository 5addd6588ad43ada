from __future__ import annotations

import pytest

from include.core.contracts.diagnosis import Finding
from include.training.diagnosis_evidence import Evidence, Missing
from include.training.diagnosis_waits import copy_bound, data_bound, save_stall, straggler
from include.training.telemetry.facts import RankTelemetry
from tests.support.diagnosis_series import device_series, gpu, step_facts


def evidence(*, machine=None, series=None, **shares) -> Evidence:
    steps = step_facts(step_s=0.1, **shares) if shares else None
    return Evidence(
        [RankTelemetry(steps=steps, machine=machine or gpu(), series=device_series(seed=3, **series or {}))]
    )


def ranks(*shares: dict[str, float]) -> Evidence:
    world = len(shares)
    return Evidence(
        [
            RankTelemetry(rank=rank, world=world, steps=step_facts(step_s=0.1, rank=rank, world=world, **parts))
            for rank, parts in enumerate(shares)
        ]
    )


@pytest.mark.parametrize(
    ("series", "word"),
    [
        ({"host_cpu": 0.97}, "decoded"),
        ({"host_cpu": 0.97, "worker_cpu": 0.9}, "decoded"),
        ({"host_cpu": 0.97, "worker_cpu": 0.2}, "machine of its own"),
        ({"host_cpu": 0.2, "host_io_wait": 0.3}, "shards"),
        ({"host_cpu": 0.3, "host_io_wait": 0.01}, "workers"),
        ({}, "workers"),
    ],
)
def test_fix_for_late_data_follows_from_what_the_host_does(series: dict[str, float], word: str) -> None:
    found = data_bound(evidence(data_wait=0.4, series=series))
    assert isinstance(found, Finding)
    assert word in found.fix
    assert found.lost_share == pytest.approx(0.4)


def test_loop_that_does_not_time_its_waiting_cannot_be_judged() -> None:
    assert data_bound(evidence(compute=0.9)) == Missing("the loop does not time its waiting for data")


def test_some_waiting_is_nothing() -> None:
    assert data_bound(evidence(data_wait=0.09)) is None


def test_busy_device_memory_alone_says_nothing_about_copies() -> None:
    assert isinstance(copy_bound(evidence(series={"gpu_memory_busy": 0.99, "gpu_busy": 0.5})), Missing)


def test_full_link_beside_a_full_device_is_hidden_work() -> None:
    link = {"pcie_to_device_bytes_per_s": 26e9, "gpu_busy": 0.99}
    assert copy_bound(evidence(machine=gpu(pcie=31.5e9), series={**link, "sm_active": 0.9})) is None
    assert isinstance(copy_bound(evidence(machine=gpu(pcie=31.5e9), series={**link, "sm_active": 0.3})), Finding)


def test_traffic_without_the_limit_of_the_link_is_no_evidence() -> None:
    assert isinstance(copy_bound(evidence(series={"pcie_to_device_bytes_per_s": 26e9, "sm_active": 0.3})), Missing)


def test_saves_within_the_price_of_checkpoints_are_accepted() -> None:
    assert save_stall(evidence(save=0.03)) is None
    assert isinstance(save_stall(evidence(save=0.04)), Finding)
    assert isinstance(save_stall(evidence(compute=0.9)), Missing)


def test_slow_rank_is_named_with_its_ratio() -> None:
    found = straggler(ranks({"forward": 0.2, "compute": 0.9}, {"forward": 0.3, "compute": 0.9}))
    assert isinstance(found, Finding)
    assert found.evidence["rank"] == 1
    assert found.evidence["ratio"] == pytest.approx(1.5)


def test_rank_whose_data_is_late_is_a_straggler_even_if_compute_hides_it() -> None:
    found = straggler(ranks({"data_wait": 0.01, "compute": 0.6}, {"data_wait": 0.35, "compute": 0.6}))
    assert isinstance(found, Finding)
    assert found.evidence["rank"] == 1


def test_one_worker_or_one_that_left_telemetry_cannot_be_compared() -> None:
    assert isinstance(straggler(evidence(compute=0.9)), Missing)
    alone = Evidence([RankTelemetry(rank=0, world=4, steps=step_facts(step_s=0.1, world=4, compute=0.9))])
    assert straggler(alone) == Missing("the telemetry of the other ranks")
