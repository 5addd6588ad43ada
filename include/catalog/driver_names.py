"""From what a driver calls a GPU to its name in the catalog."""

from __future__ import annotations

import re

from include.catalog.catalog_file import Chip
from include.catalog.loader import MIB, load_chips

# Drivers keep some of the memory back, and boards of one name differ in size.
_SAME_MEMORY = 0.1


def chip_of(driver_name: str, memory_bytes: int | None) -> tuple[str, Chip] | None:
    """The catalog's chip with all words of its name in the driver's and nearly the same memory; None for no such chip.

    Args:
        driver_name: For example ``NVIDIA A100-SXM4-80GB``.
        memory_bytes: Memory of the device; a slice of a GPU has less, and is no chip of the catalog.
    """
    if memory_bytes is None:
        return None
    words = _words(driver_name)
    found = [
        (abs(memory_bytes / (chip.memory_mib * MIB) - 1), name, chip)
        for name, chip in load_chips().items()
        if _words(name.partition("-")[0]) <= words
    ]
    near = [item for item in found if item[0] <= _SAME_MEMORY]
    if not near:
        return None
    _, name, chip = min(near, key=lambda item: item[:2])
    return name, chip


def _words(name: str) -> set[str]:
    return set(re.split(r"[\s-]+", name.upper()))
