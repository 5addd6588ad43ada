"""Where the partitions of a GPU may lie. For planning: the driver has the last word (NVML tells placements)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from include.catalog.mig import USABLE_OF_MEMORY_SLICE, mig_profiles
from include.sizing.packing_items import Device, Item, Terms

# First memory slice by (compute slices, memory slices) on cards of seven compute and eight memory slices: placements of
# an A100 in NVIDIA's go-nvml mock (pkg/nvml/mock/dgxa100); assumed to hold for Hopper, which has the same profiles.
_STARTS: dict[tuple[int, int], tuple[int, ...]] = {
    (1, 1): (0, 1, 2, 3, 4, 5, 6),
    (1, 2): (0, 2, 4, 6),
    (2, 2): (0, 2, 4),
    (3, 4): (0, 4),
    (4, 4): (0,),
    (7, 8): (0,),
}
MEMORY_SLICES = 8
COMPUTE_SLICES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One kind of partition of a device.

    Attributes:
        profile: Its name.
        memory_slices: Memory slices that it takes, of eight.
        compute_slices: Compute slices that it takes, of seven.
        memory_mib: Memory that a model can use in it.
        compute: Ten-thousandths of a device of speed 1.
        starts: Where it may begin.
    """

    profile: str
    memory_slices: int
    compute_slices: int
    memory_mib: int
    compute: int
    starts: tuple[int, ...]


@lru_cache(maxsize=1024)
def pieces_of(device: Device) -> tuple[Piece, ...]:
    """Partitions of a device, smallest first; empty where it cannot be cut or nobody knows where they may lie."""
    found = [
        Piece(
            profile=profile.name,
            memory_slices=profile.memory_slices,
            compute_slices=profile.compute_slices,
            memory_mib=math.floor(device.memory_mib * profile.memory_share * USABLE_OF_MEMORY_SLICE),
            compute=math.floor(device.compute * profile.compute_share),
            starts=_STARTS[profile.compute_slices, profile.memory_slices],
        )
        for profile in mig_profiles(device.accelerator)
        if profile.memory_slices_of == MEMORY_SLICES and (profile.compute_slices, profile.memory_slices) in _STARTS
    ]
    return tuple(sorted(found, key=lambda piece: (piece.memory_slices, piece.compute_slices)))


def piece_for(item: Item, device: Device, terms: Terms) -> Piece | None:
    """The smallest partition that holds an item; a larger one never leaves more room to others.

    Where a latency is promised, the margin of compute stays free in the partition as it does on a shared device:
    requests queue alike when either is nearly always busy.
    """
    return next(
        (
            piece
            for piece in pieces_of(device)
            if piece.memory_mib >= terms.need_mib(item)
            and terms.kept_compute(piece.compute, slo=item.slo) >= item.compute
        ),
        None,
    )
