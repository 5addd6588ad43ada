"""Partitions of accelerators (MIG): the profiles, and what a partition has of the whole.

The tables are for planning; the driver of the machine has the last word on profiles and placements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Profile names by accelerator, the one with media engines left out. NVIDIA MIG User Guide, "Supported MIG Profiles".
# https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
MIG_PROFILES: dict[str, tuple[str, ...]] = {
    "A100-40GB": ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    "A100-80GB": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    "H100": ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
    "H200": ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),
    "B200": ("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    "B300": ("1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"),
    "RTX PRO Server 6000": ("1g.24gb", "2g.48gb", "4g.96gb"),
}
# Multiprocessors of a compute slice and of the whole where that is less than an eighth: 16 of 132 (NVIDIA MIG User
# Guide). The 14 of 108 of an A100 are somewhat more.
_SLICE_SHARE = {"H100": 16 / 132, "H200": 16 / 132}
_NAME = re.compile(r"(\d)g\.(\d+)gb")
# `nvidia-smi mig -lgip` gives 4.75 GiB for the eighth of an A100 40GB and 9.5 GiB for that of an A100 80GB (NVIDIA
# MIG User Guide, "Getting Started with MIG").
USABLE_OF_MEMORY_SLICE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One kind of partition.

    Attributes:
        name: For example ``3g.40gb``.
        compute_slices: Compute slices it takes.
        compute_slices_of: Compute slices that the accelerator can be cut into.
        memory_slices: Memory slices it takes.
        memory_slices_of: Memory slices that the accelerator has.
        slice_share: Share of the accelerator's arithmetic that one compute slice has.
        at_most: Partitions of this kind that fit on one accelerator, none of another kind beside them.
    """

    name: str
    compute_slices: int
    compute_slices_of: int
    memory_slices: int
    memory_slices_of: int
    slice_share: float
    at_most: int

    @property
    def memory_share(self) -> float:
        """Share of the accelerator's memory, of which a little is the driver's."""
        return self.memory_slices / self.memory_slices_of

    @property
    def compute_share(self) -> float:
        """Share of the accelerator's arithmetic.

        A slice of seven is an eighth of the chip, not a seventh; somewhat less on Hopper.
        """
        return self.compute_slices * self.slice_share

    @property
    def occupied_share(self) -> float:
        """Share of the accelerator that nobody else can have: compute or memory, whichever is more."""
        return max(self.compute_slices / self.compute_slices_of, self.memory_share)


def mig_profiles(accelerator: str) -> tuple[MigProfile, ...]:
    """Profiles of an accelerator, smallest first; empty where it cannot be cut or nobody knows how."""
    parsed = [(name, *_sizes(name)) for name in MIG_PROFILES.get(accelerator, ())]
    if not parsed:
        return ()
    slices_of, whole_gb = parsed[-1][1], parsed[-1][2]
    memory_of = 8 if slices_of == 7 else slices_of  # noqa: PLR2004 - cards of seven compute slices have eight of memory
    return tuple(
        MigProfile(
            name=name,
            compute_slices=compute,
            compute_slices_of=slices_of,
            memory_slices=(memory := round(gb / whole_gb * memory_of)),
            memory_slices_of=memory_of,
            slice_share=_SLICE_SHARE.get(accelerator, 1 / memory_of),
            at_most=min(slices_of // compute, memory_of // memory),
        )
        for name, compute, gb in parsed
    )


def _sizes(name: str) -> tuple[int, int]:
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return int(found[1]), int(found[2])
