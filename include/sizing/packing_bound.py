"""How many devices are needed at least: valid for every solver, so a result that meets it is the best there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from include.sizing.packing_items import Device, Item, Terms
from include.sizing.packing_mig import COMPUTE_SLICES, MEMORY_SLICES, piece_for
from include.sizing.packing_patterns import fewest_cut_devices


def lower_bound(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> int:
    """Fewest devices that could hold all items, never more than are really needed.

    The largest of: the bound L2 of Martello and Toth (1990) for each thing that devices have (memory, compute, MIG
    slices), the replicas of one model that must be apart, the layouts of partitions, the places of MPS clients. Of
    different devices the roomiest counts.
    """
    if not items or not devices:
        return 0
    dimensions = _mig_sizes(items, devices, terms) if terms.isolation == "mig" else _shared_sizes(items, devices, terms)
    apart = Counter(item.model for item in items if item.spread)
    further = [_cut(items, devices, terms) if terms.isolation == "mig" else 0]
    if terms.isolation == "mps":
        further.append(_clients(items, devices, terms))
    return max([*(l2(sizes) for sizes in dimensions), *apart.values(), *further])


def _cut(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> int:
    """What the layouts of partitions need, where all devices are of one kind."""
    kinds = {(device.accelerator, device.memory_mib, device.compute) for device in devices}
    return (fewest_cut_devices(items, devices[0], terms) or 0) if len(kinds) == 1 else 0


def _clients(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> int:
    """Devices for the places alone: the most demanding client and those that come next fill one, and so on.

    Exchanging two clients shows that no other way needs fewer places, were there nothing else to keep to.
    """
    most = sorted(max(1, *(terms.most_clients(item, device) for device in devices)) for item in items)
    needed = place = 0
    while place < len(most):
        place += most[place]
        needed += 1
    return needed


def _shared_sizes(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> list[list[Fraction]]:
    memory = max(terms.usable_mib(device) for device in devices)
    slo = all(item.slo for item in items)
    compute = max(terms.usable_compute(device, slo=slo) for device in devices)
    found = [
        [Fraction(terms.need_mib(item), max(1, memory)) for item in items],
        [Fraction(item.compute, max(1, compute)) for item in items],
    ]
    found.append(_promises(items, devices, terms))
    return found


def _promises(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> list[Fraction]:
    """Compute as whole devices' worth, with the margin that each device with a promise on it loses.

    Promised work fills at least so many devices to their margin, and these lose it for all work.
    """
    whole = max(device.compute for device in devices)
    kept = max(terms.usable_compute(device, slo=True) for device in devices)
    promised = [item for item in items if item.slo]
    if not promised or kept >= whole:
        return []
    apart = Counter(item.model for item in promised if item.spread)
    full = -(-sum(item.compute for item in promised) // max(1, kept))
    needed = sum(item.compute for item in items) + max([full, *apart.values()]) * (whole - kept)
    return [Fraction(1)] * -(-needed // whole)


def _mig_sizes(items: Sequence[Item], devices: Sequence[Device], terms: Terms) -> list[list[Fraction]]:
    kinds = list({(device.accelerator, device.memory_mib, device.compute): device for device in devices}.values())
    memory, compute = [], []
    for item in items:
        pieces = [piece for device in kinds if (piece := piece_for(item, device, terms)) is not None]
        memory.append(Fraction(min((piece.memory_slices for piece in pieces), default=0), MEMORY_SLICES))
        compute.append(Fraction(min((piece.compute_slices for piece in pieces), default=0), COMPUTE_SLICES))
    return [memory, compute]


def l2(sizes: Sequence[Fraction]) -> int:
    """The bound L2 for bins of size 1: large items take a bin each, small ones what these leave, and the rest.

    For each limit k: items above 1 - k fill a bin alone; those above a half take one each and leave room for items from
    k to a half; what of these does not go there needs further bins.
    """
    half = Fraction(1, 2)
    sizes = [min(size, Fraction(1)) for size in sizes if size > 0]
    best = 0
    for k in {Fraction(0), *(size for size in sizes if size <= half)}:
        alone = sum(size > 1 - k for size in sizes)
        large = [size for size in sizes if half < size <= 1 - k]
        small = sum((size for size in sizes if k <= size <= half), Fraction(0))
        room = len(large) - sum(large, Fraction(0))
        rest = max(Fraction(0), small - room)
        best = max(best, alone + len(large) + -(-rest.numerator // rest.denominator))
    return best
