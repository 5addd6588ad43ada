"""What is packed, where, and how it ended. Sizes are whole numbers, so that every solver counts alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Isolation = Literal["mig", "mps", "time-slicing", "process"]
# From the strongest to the weakest.
ISOLATIONS: tuple[Isolation, ...] = ("mig", "mps", "time-slicing", "process")
MIB_PER_GIB = 1024
# Compute is counted in ten-thousandths of a device.
COMPUTE_UNITS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One replica of a model.

    Attributes:
        model: Name of the model.
        replica: Number of the replica, from 0.
        memory_mib: Device memory of the model, without the process that holds it.
        compute: Ten-thousandths of a device of speed 1 at its peak load.
        priority: The higher one goes first where not all fit.
        slo: Whether its latency is promised.
        spread: Whether its replicas go on different devices.
    """

    model: str
    replica: int
    memory_mib: int
    compute: int
    priority: int = 0
    slo: bool = False
    spread: bool = True

    @property
    def name(self) -> str:
        """Model and replica."""
        return f"{self.model}/{self.replica}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU.

    Attributes:
        name: Its group and index.
        group: Its group.
        index: Its index within the group, as the driver counts.
        accelerator: Kind of accelerator, by which MIG profiles are known.
        memory_mib: Its whole memory.
        compute: Ten-thousandths of a device of speed 1.
    """

    name: str
    group: str
    index: int
    accelerator: str
    memory_mib: int
    compute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all solvers keep to.

    Attributes:
        isolation: How devices are shared.
        memory_margin: Share of a shared device's memory that stays free.
        slo_margin: Share of the compute of a shared device or a partition that stays free where a promised latency is
            on it.
        context_mib: Memory of one process on a device, beside its models.
    """

    isolation: Isolation
    memory_margin: float
    slo_margin: float
    context_mib: int

    def usable_mib(self, device: Device) -> int:
        """Memory of a shared device that may be filled; one process is counted where all models are in one."""
        context = self.context_mib if self.isolation == "process" else 0
        return math.floor(device.memory_mib * (1 - self.memory_margin)) - context

    def need_mib(self, item: Item) -> int:
        """Memory of one item with its process, where it has one of its own."""
        return item.memory_mib + (0 if self.isolation == "process" else self.context_mib)

    def usable_compute(self, device: Device, *, slo: bool) -> int:
        """Compute of a shared device that may be filled."""
        return self.kept_compute(device.compute, slo=slo)

    def kept_compute(self, compute: int, *, slo: bool) -> int:
        """Compute of a device or a partition that may be filled."""
        return math.floor(compute * (1 - self.slo_margin)) if slo else compute

    def most_clients(self, item: Item, device: Device) -> int:
        """How many clients an MPS device may have beside and with this one: memory and compute are split equally."""
        by_memory = self.usable_mib(device) // max(1, self.need_mib(item))
        return min(by_memory, device.compute // max(1, item.compute))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where one item went.

    Attributes:
        item: The item.
        device: The device.
        profile: Its MIG profile, None on a shared device.
        start: First memory slice of it.
    """

    item: Item
    device: Device
    profile: str | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a solver found.

    Attributes:
        spots: One per placed item.
        left_out: The others.
        proven: Whether no assignment needs fewer devices.
        solver: Who found it.
    """

    spots: tuple[Spot, ...]
    left_out: tuple[Item, ...]
    proven: bool
    solver: str

    @property
    def devices(self) -> int:
        """Devices in use."""
        return len({spot.device.name for spot in self.spots})
