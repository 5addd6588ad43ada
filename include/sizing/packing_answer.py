"""The answer to a packing file: placements with their isolation, what is left out and why, and what is gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from include.catalog.loader import load_chips
from include.sizing.packing_bound import lower_bound
from include.sizing.packing_file import PackingFile
from include.sizing.packing_isolation import APARTNESS, Configuration, configurations
from include.sizing.packing_items import COMPUTE_UNITS, MIB_PER_GIB, Assignment, Device, Isolation, Item, Spot, Terms
from include.sizing.packing_load import fits_somewhere
from include.sizing.packing_mig import pieces_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One replica on its device.

    Attributes:
        model: The model.
        replica: Number of the replica.
        device: Its device.
        isolation: How it shares it.
        profile: Its MIG profile, None on a shared device.
        start: First memory slice of that, of eight.
        keeps_apart: What the isolation keeps apart.
        does_not: What it does not.
    """

    model: str
    replica: int
    device: str
    isolation: Isolation
    profile: str | None
    start: int | None
    keeps_apart: str
    does_not: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A replica without a device, and why."""

    model: str
    replica: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLoad:
    """One device in use: shares of its whole memory and compute that its models take."""

    device: str
    models: tuple[str, ...]
    memory: float
    compute: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Mean shares of memory and compute over the devices in use."""

    devices: int
    memory: float
    compute: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The answer.

    Attributes:
        name: Name of the packing file.
        isolation: How devices are shared.
        solver: Who found it.
        devices: Devices in use.
        at_least: Devices without which what was placed cannot be held: a lower bound.
        proven: Whether no other answer needs fewer devices, or places more by priority.
        placements: By device.
        left_out: What has no device, with the reason.
        loads: Devices in use.
        before: One device per placed replica.
        after: This answer.
        configurations: Files that make it.
        notes: What was tried beside it.
    """

    name: str
    isolation: Isolation
    solver: str
    devices: int
    at_least: int
    proven: bool
    placements: tuple[Placement, ...]
    left_out: tuple[LeftOut, ...]
    loads: tuple[DeviceLoad, ...]
    before: Utilisation | None
    after: Utilisation | None
    configurations: tuple[Configuration, ...]
    notes: tuple[str, ...]


def answer(order: PackingFile, isolation: Isolation, found: Assignment, *, notes: tuple[str, ...]) -> Packing:
    """The answer for people, from what a solver found."""
    terms, words = order.terms(isolation), APARTNESS[isolation]
    placed = tuple(spot.item for spot in found.spots)
    devices = tuple(d for d in order.all_devices() if isolation != "mig" or pieces_of(d))
    return Packing(
        name=order.name,
        isolation=isolation,
        solver=found.solver,
        devices=found.devices,
        at_least=lower_bound(placed, devices, terms),
        proven=found.proven,
        placements=tuple(
            Placement(
                model=spot.item.model,
                replica=spot.item.replica,
                device=spot.device.name,
                isolation=isolation,
                profile=spot.profile,
                start=spot.start,
                keeps_apart=words.keeps_apart,
                does_not=words.does_not,
            )
            for spot in found.spots
        ),
        left_out=tuple(
            LeftOut(model=item.model, replica=item.replica, reason=_reason(item, order, terms, found))
            for item in found.left_out
        ),
        loads=_loads(found.spots),
        before=_before(placed, devices),
        after=_mean([(load.memory, load.compute) for load in _loads(found.spots)]),
        configurations=configurations(isolation, found.spots, name=order.name),
        notes=(*_warnings(placed, isolation), *_unknown(order), *notes),
    )


def _warnings(placed: Sequence[Item], isolation: Isolation) -> tuple[str, ...]:
    promised = sorted({item.model for item in placed if item.slo})
    if not promised or isolation in ("mig", "mps"):
        return ()
    return (
        f"{isolation} keeps no share of compute: what is promised of {', '.join(promised)} rests on the margin alone",
    )


def _unknown(order: PackingFile) -> tuple[str, ...]:
    names = sorted({group.accelerator for group in order.devices} - load_chips().keys())
    if not names:
        return ()
    return (
        f"{', '.join(names)}: not in the catalog; memory is taken as stated, and whether it can be shared is unknown",
    )


def _loads(spots: Sequence[Spot]) -> tuple[DeviceLoad, ...]:
    by_device: dict[Device, list[Item]] = {}
    for spot in spots:
        by_device.setdefault(spot.device, []).append(spot.item)
    return tuple(
        DeviceLoad(
            device=device.name,
            models=tuple(item.name for item in items),
            memory=sum(item.memory_mib for item in items) / device.memory_mib,
            compute=sum(item.compute for item in items) / device.compute,
        )
        for device, items in by_device.items()
    )


def _before(placed: Sequence[Item], devices: Sequence[Device]) -> Utilisation | None:
    """Each replica alone on a device of the first kind that is large enough for it."""
    alone = []
    for item in placed:
        device = next((d for d in devices if d.memory_mib >= item.memory_mib and d.compute >= item.compute), devices[0])
        alone.append((item.memory_mib / device.memory_mib, item.compute / device.compute))
    return _mean(alone)


def _mean(shares: Sequence[tuple[float, float]]) -> Utilisation | None:
    if not shares:
        return None
    count = len(shares)
    return Utilisation(
        devices=count, memory=sum(m for m, _ in shares) / count, compute=sum(c for _, c in shares) / count
    )


def _reason(item: Item, order: PackingFile, terms: Terms, found: Assignment) -> str:
    devices = order.all_devices()
    if terms.isolation == "mig":
        devices = tuple(device for device in devices if pieces_of(device))
    if not fits_somewhere(item, devices, terms):
        return _too_large(item, devices, terms)
    replicas = sum(other.model == item.model for other in order.items())
    if item.spread and replicas > len(devices):
        return f"its {replicas} replicas go on different devices, and there are {len(devices)}"
    same = {spot.device.name for spot in found.spots if spot.item.model == item.model}
    room = f"no room on the {len(devices)} devices beside what has the same or a higher priority"
    apart = f"; {', '.join(sorted(same))} hold other replicas of it" if item.spread and same else ""
    everything = tuple(i for i in order.items() if fits_somewhere(i, devices, terms))
    needed = lower_bound(everything, devices, terms)
    more = f"; all together need at least {needed} devices" if needed > len(devices) else ""
    return f"{room}{apart}{more}"


def _too_large(item: Item, devices: Sequence[Device], terms: Terms) -> str:
    if terms.isolation == "mig":
        pieces = [piece for device in devices for piece in pieces_of(device)]
        memory = max(piece.memory_mib for piece in pieces)
        compute = max(terms.kept_compute(piece.compute, slo=item.slo) for piece in pieces)
        where = "the largest partition within its margins" if item.slo else "the largest partition"
    else:
        memory = max(terms.usable_mib(device) for device in devices)
        compute = max(terms.usable_compute(device, slo=item.slo) for device in devices)
        where = "the largest device within its margins"
    need = terms.need_mib(item)
    if need > memory:
        return f"needs {need / MIB_PER_GIB:.1f} GiB, {where} has {memory / MIB_PER_GIB:.1f}"
    if item.compute > compute:
        return (
            f"needs {item.compute / COMPUTE_UNITS:.2f} of a device's compute, {where} has {compute / COMPUTE_UNITS:.2f}"
        )
    both = f"{need / MIB_PER_GIB:.1f} GiB and {item.compute / COMPUTE_UNITS:.2f} of the compute"
    return f"needs {both}, and no single device has both"
