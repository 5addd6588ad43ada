from __future__ import annotations

import pytest

from include.catalog.driver_names import chip_of

MIB = 2**20


@pytest.mark.parametrize(
    ("driver", "mib", "expected"),
    [
        ("NVIDIA H200", 143_167, "H200"),
        ("NVIDIA H100 80GB HBM3", 81_079, "H100"),
        ("NVIDIA A100-SXM4-80GB", 81_050, "A100-80GB"),
        ("NVIDIA A100-SXM4-40GB", 40_326, "A100-40GB"),
        ("NVIDIA A10G", 22_503, "A10G"),
        ("NVIDIA L4", 22_478, "L4"),
        ("Tesla T4", 14_930, "T4"),
        ("NVIDIA RTX PRO 4500 Blackwell", 32_100, "RTX PRO 4500"),
    ],
)
def test_names_of_drivers_are_found_in_the_catalog(driver: str, mib: int, expected: str) -> None:
    found = chip_of(driver, mib * MIB)
    assert found is not None
    assert found[0] == expected


@pytest.mark.parametrize(
    ("driver", "mib"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9_728),  # a slice
        ("Tesla V100-SXM2-16GB", 16_160),  # the catalog has the larger one alone
        ("NVIDIA GeForce RTX 4090", 24_210),
        ("cpu", 22_478),
    ],
)
def test_what_the_catalog_does_not_have_is_nothing(driver: str, mib: int) -> None:
    assert chip_of(driver, mib * MIB) is None


def test_without_memory_nothing_is_known() -> None:
    assert chip_of("NVIDIA H200", None) is None
