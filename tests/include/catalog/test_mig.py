"""Partitions of accelerators against the published tables."""

from __future__ import annotations

import pytest

from include.catalog.mig import MIG_PROFILES, mig_profiles


@pytest.mark.parametrize("accelerator", ["A100-40GB", "A100-80GB", "H100", "H200", "B200", "B300"])
def test_cards_of_seven_slices(accelerator):
    found = [(p.compute_slices, p.memory_slices, p.at_most) for p in mig_profiles(accelerator)]
    # compute slices of 7, memory slices of 8, instances: NVIDIA MIG User Guide
    assert found == [(1, 1, 7), (1, 2, 4), (2, 2, 3), (3, 4, 2), (4, 4, 1), (7, 8, 1)]


def test_cards_of_four_slices():
    found = [(p.name, p.memory_share, p.occupied_share, p.at_most) for p in mig_profiles("RTX PRO Server 6000")]
    assert found == [("1g.24gb", 0.25, 0.25, 4), ("2g.48gb", 0.5, 0.5, 2), ("4g.96gb", 1.0, 1.0, 1)]


def test_an_accelerator_without_the_capability_has_none():
    assert "T4" not in MIG_PROFILES
    assert mig_profiles("T4") == ()


def test_a_partition_with_little_compute_occupies_its_memory():
    by_name = {p.name: p for p in mig_profiles("H100")}
    assert by_name["1g.20gb"].occupied_share == 0.25
    assert by_name["2g.20gb"].occupied_share == pytest.approx(2 / 7)
    # 14 of 108 multiprocessors of an A100, 16 of 132 of an H100: about an eighth
    assert by_name["1g.10gb"].compute_share == 16 / 132
