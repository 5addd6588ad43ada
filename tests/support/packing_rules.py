"""Rules of packing, written a second time and plainly, and the best answer by trying all of them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations

from include.sizing.packing_file import PackingFile
from include.sizing.packing_items import Assignment, Device, Item, Terms
from include.sizing.packing_mig import Piece, piece_for


def random_order(
    seed: int, *, isolation: str, models: int = 10, devices: int = 30, solver: str = "auto"
) -> PackingFile:
    """A set of small models like those of the example: sizes, replicas and promises by chance, the seed decides."""
    rng = random.Random(seed)
    named = [
        {
            "name": f"m{number}",
            "memory_gib": rng.choice([4, 6, 8, 9, 12, 14, 18, 24, 30, 36]) + round(rng.random(), 2),
            "compute": round(rng.choice([0.05, 0.1, 0.12, 0.2, 0.24, 0.35, 0.5]) * rng.uniform(0.8, 1.0), 3),
            "replicas": rng.choice([1, 1, 1, 1, 2, 3]),
            "slo": rng.random() < 0.3,
        }
        for number in range(models)
    ]
    group = {"name": "a100", "count": devices, "accelerator": "A100-80GB", "memory_gib": 80}
    return PackingFile(name=f"random-{seed}", isolation=isolation, solver=solver, devices=[group], models=named)


def broken_rules(found: Assignment, order: PackingFile, terms: Terms) -> list[str]:
    """Every rule that an assignment breaks."""
    wrong = []
    names = [spot.item.name for spot in found.spots] + [item.name for item in found.left_out]
    if sorted(names) != sorted(item.name for item in order.items()):
        wrong.append("an item is missing or there twice")
    by_device: dict[Device, list] = defaultdict(list)
    for spot in found.spots:
        by_device[spot.device].append(spot)
    for device, spots in by_device.items():
        if not fits([spot.item for spot in spots], device, terms, pieces=False):
            wrong.append(f"{device.name} is too full")
        if terms.isolation != "mig":
            continue
        taken: set[int] = set()
        compute = 0
        for spot in spots:
            piece = piece_for(spot.item, device, terms)
            cells = set(range(spot.start, spot.start + piece.memory_slices))
            if cells & taken or spot.start not in piece.starts or spot.profile != piece.profile:
                wrong.append(f"{spot.item.name} lies wrongly on {device.name}")
            taken |= cells
            compute += piece.compute_slices
        if compute > 7:
            wrong.append(f"{device.name} has too many compute slices")
    return wrong


def fits(items: Sequence[Item], device: Device, terms: Terms, *, pieces: bool = True) -> bool:
    """Whether one device holds these items."""
    models = [item.model for item in items if item.spread]
    if len(models) != len(set(models)):
        return False
    if terms.isolation == "mig":
        return not pieces or _lay_out([piece_for(item, device, terms) for item in items])
    context = terms.context_mib
    memory = sum(item.memory_mib for item in items) + context * (1 if terms.isolation == "process" else len(items))
    free = 1 - terms.slo_margin if any(item.slo for item in items) else 1.0
    if memory > device.memory_mib * (1 - terms.memory_margin) + 1e-6:
        return False
    if sum(item.compute for item in items) > device.compute * free + 1e-6:
        return False
    if terms.isolation == "mps":
        part = device.memory_mib * (1 - terms.memory_margin) / len(items)
        return all(
            item.memory_mib + context <= part + 1e-6 and item.compute <= device.compute / len(items) + 1e-6
            for item in items
        )
    return True


def _lay_out(pieces: Sequence[Piece | None]) -> bool:
    if None in pieces or sum(piece.compute_slices for piece in pieces) > 7:
        return False

    def place(rest: tuple[Piece, ...], taken: frozenset[int]) -> bool:
        if not rest:
            return True
        first, *others = rest
        for start in first.starts:
            cells = frozenset(range(start, start + first.memory_slices))
            if not cells & taken and place(tuple(others), taken | cells):
                return True
        return False

    return any(place(order, frozenset()) for order in set(permutations(pieces)))


def fewest(items: Sequence[Item], device: Device, terms: Terms) -> int:
    """Fewest equal devices, by trying all ways to divide the items."""
    return min(len(groups) for groups in _divisions(list(items)) if all(fits(group, device, terms) for group in groups))


def _divisions(items: list[Item]) -> Iterator[list[list[Item]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for division in _divisions(rest):
        yield [[first], *division]
        for number in range(len(division)):
            yield [*division[:number], [first, *division[number]], *division[number + 1 :]]
