"""One device while it fills: what still fits, and why something does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from include.sizing.packing_items import Device, Item, Spot, Terms
from include.sizing.packing_mig import COMPUTE_SLICES, MEMORY_SLICES, piece_for


@dataclass(slots=True, kw_only=True)
class Load:
    """A device with what is on it.

    Attributes:
        device: The device.
        terms: What has to be kept to.
        spots: What is on it.
    """

    device: Device
    terms: Terms
    spots: list[Spot] = field(default_factory=list)
    _memory: int = 0
    _compute: int = 0
    _slo: bool = False
    _most_clients: int = 10**9
    _slices: list[bool] = field(default_factory=lambda: [False] * MEMORY_SLICES)
    _compute_slices: int = 0

    def place(self, item: Item) -> Spot | None:
        """Where the item would go, None where it does not fit."""
        if item.spread and any(spot.item.model == item.model for spot in self.spots):
            return None
        if self.terms.isolation == "mig":
            return self._place_in_piece(item)
        memory = self._memory + self.terms.need_mib(item)
        limit = self.terms.usable_compute(self.device, slo=self._slo or item.slo)
        fits = memory <= self.terms.usable_mib(self.device) and self._compute + item.compute <= limit
        if fits and self.terms.isolation == "mps":
            most = min(self._most_clients, self.terms.most_clients(item, self.device))
            fits = len(self.spots) + 1 <= most
        return Spot(item=item, device=self.device) if fits else None

    def _place_in_piece(self, item: Item) -> Spot | None:
        piece = piece_for(item, self.device, self.terms)
        if piece is None or self._compute_slices + piece.compute_slices > COMPUTE_SLICES:
            return None
        # Small ones from the end: the beginning is where the large ones have to lie.
        starts = piece.starts if piece.memory_slices > 2 else piece.starts[::-1]  # noqa: PLR2004 - of two slices and less
        for start in starts:
            if not any(self._slices[start : start + piece.memory_slices]):
                return Spot(item=item, device=self.device, profile=piece.profile, start=start)
        return None

    def add(self, spot: Spot) -> None:
        """Take what `place` gave."""
        item = spot.item
        self.spots.append(spot)
        self._memory += self.terms.need_mib(item)
        self._compute += item.compute
        self._slo = self._slo or item.slo
        if self.terms.isolation == "mps":
            self._most_clients = min(self._most_clients, self.terms.most_clients(item, self.device))
        piece = piece_for(item, self.device, self.terms) if spot.start is not None else None
        if piece is not None and spot.start is not None:
            self._slices[spot.start : spot.start + piece.memory_slices] = [True] * piece.memory_slices
            self._compute_slices += piece.compute_slices

    def imbalance_with(self, item: Item) -> float:
        """How far memory and compute would be apart: what is left of one alone is of no use to anybody."""
        memory = (self._memory + self.terms.need_mib(item)) / self.device.memory_mib
        return abs(memory - (self._compute + item.compute) / self.device.compute)


def fits_somewhere(item: Item, kinds: Sequence[Device], terms: Terms) -> bool:
    """Whether an item fits into an empty device of these."""
    return any(Load(device=device, terms=terms).place(item) is not None for device in kinds)
