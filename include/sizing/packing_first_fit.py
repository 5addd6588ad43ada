"""First-fit decreasing (Johnson 1973), in several orders; the best result counts. Needs no library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal

from include.sizing.packing_items import Assignment, Device, Item, Spot, Terms
from include.sizing.packing_load import Load

Pick = Literal["first", "balanced"]
_Order = Callable[[Item], tuple[float, ...]]


def first_fit(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> Assignment:
    """Place items one after the other, large ones first.

    Args:
        items: What is to be placed.
        devices: Where it may go.
        terms: Isolation and margins.

    Returns:
        The best of all orders: where not all fit, higher priorities before lower ones; then the fewest devices; then
        the pairs that fill memory and compute alike.
    """
    memory = max(device.memory_mib for device in devices)
    orders: tuple[_Order, ...] = (
        lambda item: (max(item.memory_mib / memory, item.compute / devices[0].compute),),
        lambda item: (item.memory_mib / memory + item.compute / devices[0].compute,),
        lambda item: (item.memory_mib, item.compute),
        lambda item: (item.compute, item.memory_mib),
    )
    picks: tuple[Pick, ...] = ("first", "balanced")
    found = [_fill(items, devices, terms, order, pick) for order, pick in product(orders, picks)]
    if any(result.left_out for result in found):
        found += [_fill(items, devices, terms, _by_priority(order), pick) for order, pick in product(orders, picks)]
    return min(found, key=lambda result: _quality(result, items))


def _by_priority(order: _Order) -> _Order:
    return lambda item: (item.priority, *order(item))


def _fill(items: Sequence[Item], devices: Sequence[Device], terms: Terms, order: _Order, pick: Pick) -> Assignment:
    loads = [Load(device=device, terms=terms) for device in devices]
    spots: list[Spot] = []
    left_out: list[Item] = []
    # Names decide between equals, so that the same file always gives the same answer.
    for item in sorted(items, key=lambda item: (*(-value for value in order(item)), item.name)):
        load, spot = _choose(item, loads, pick)
        if load is None or spot is None:
            left_out.append(item)
            continue
        load.add(spot)
        spots.append(spot)
    return Assignment(spots=tuple(spots), left_out=tuple(left_out), proven=False, solver="first-fit decreasing")


def _choose(item: Item, loads: Sequence[Load], pick: Pick) -> tuple[Load | None, Spot | None]:
    fitting = ((load, spot) for load in _worth_a_try(loads) if (spot := load.place(item)) is not None)
    if pick == "first":
        return next(fitting, (None, None))
    # An empty device is the last choice.
    return min(fitting, key=lambda pair: (not pair[0].spots, pair[0].imbalance_with(item)), default=(None, None))


def _worth_a_try(loads: Sequence[Load]) -> list[Load]:
    """Devices in use, then one empty device of each group: its others are no different."""
    empty = {load.device.group: load for load in reversed(loads) if not load.spots}
    return [*(load for load in loads if load.spots), *empty.values()]


def _quality(result: Assignment, items: Sequence[Item]) -> tuple[tuple[int, ...], int, float]:
    levels = sorted({item.priority for item in items}, reverse=True)
    missing = tuple(sum(item.priority == level for item in result.left_out) for level in levels)
    return missing, result.devices, imbalance(result)


def imbalance(result: Assignment) -> float:
    """How far memory and compute of the devices in use are apart, summed up."""
    totals: dict[str, tuple[float, float]] = {}
    for spot in result.spots:
        memory, compute = totals.get(spot.device.name, (0.0, 0.0))
        totals[spot.device.name] = (
            memory + spot.item.memory_mib / spot.device.memory_mib,
            compute + spot.item.compute / spot.device.compute,
        )
    return sum(abs(memory - compute) for memory, compute in totals.values())
