"""A packing file: models and the devices they may share, as YAML. All figures in it are the user's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from include.catalog.loader import load_chips
from include.config.loader import read_model_file
from include.config.schedule import Edge
from include.core.errors import UserError
from include.sizing.packing_items import COMPUTE_UNITS, MIB_PER_GIB, Device, Isolation, Item, Terms

_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_MOST_REPLICAS = 1000


class DeviceGroup(Edge):
    """Devices of one kind."""

    name: str = Field(pattern=_NAME, description="Small letters, digits and '-', as Kubernetes takes it.")
    count: int = Field(ge=1, le=1000)
    accelerator: str = Field(min_length=1, max_length=100, description="As in the catalog, for example A100-80GB.")
    memory_gib: float = Field(gt=0, le=10_000, description="Memory of one device.")
    speed: float = Field(default=1.0, gt=0, le=1000, description="Relative to the device the compute shares are of.")


class PackedModel(Edge):
    """One model to be served."""

    name: str = Field(pattern=_NAME, description="Small letters, digits and '-', as Kubernetes takes it.")
    memory_gib: float = Field(gt=0, le=10_000, description="Device memory at its peak: weights, caches, workspace.")
    compute: float = Field(gt=0, le=1, description="Share of one device of speed 1 at its peak load.")
    replicas: int = Field(default=1, ge=1, le=100)
    priority: int = Field(default=0, ge=0, le=100, description="Where not all fit, the higher one goes first.")
    slo: bool = Field(default=False, description="Whether a latency is promised: the margin of compute stays free.")
    spread: bool = Field(default=True, description="Whether its replicas go on different devices.")


class PackingFile(Edge):
    """What is packed onto what."""

    name: str = Field(pattern=_NAME)
    description: str = ""
    isolation: Literal["auto", "mig", "mps", "time-slicing", "process"] = Field(
        default="auto", description="auto: the fewest devices, and of equals the strongest isolation."
    )
    memory_margin: float = Field(default=0.08, ge=0, lt=1, description="Memory of a shared device that stays free.")
    slo_margin: float = Field(
        default=0.2, ge=0, lt=1, description="Compute that stays free where a latency is promised."
    )
    context_gib: float = Field(default=0.0, ge=0, le=100, description="Memory of one process beside its models.")
    solver: Literal["auto", "cp-sat", "first-fit"] = "auto"
    time_limit_s: float = Field(default=10.0, gt=0, le=600, description="For each search of the exact solver.")
    devices: tuple[DeviceGroup, ...] = Field(min_length=1, max_length=20)
    models: tuple[PackedModel, ...] = Field(min_length=1, max_length=500)

    @model_validator(mode="after")
    def _names_are_unique(self) -> PackingFile:
        for what, names in (("devices", [d.name for d in self.devices]), ("models", [m.name for m in self.models])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"names under {what} stand once each; twice: {', '.join(twice)}")
        if sum(model.replicas for model in self.models) > _MOST_REPLICAS:
            raise ValueError(f"at most {_MOST_REPLICAS} replicas in one file")
        return self

    def items(self) -> tuple[Item, ...]:
        """All replicas; sizes are rounded up."""
        return tuple(
            Item(
                model=model.name,
                replica=number,
                memory_mib=math.ceil(model.memory_gib * MIB_PER_GIB),
                compute=math.ceil(round(model.compute * COMPUTE_UNITS, 3)),
                priority=model.priority,
                slo=model.slo,
                spread=model.spread,
            )
            for model in self.models
            for number in range(model.replicas)
        )

    def all_devices(self) -> tuple[Device, ...]:
        """All devices, in the order of the file; sizes are rounded down."""
        return tuple(
            Device(
                name=f"{group.name}-{index}",
                group=group.name,
                index=index,
                accelerator=group.accelerator,
                memory_mib=math.floor(group.memory_gib * MIB_PER_GIB),
                compute=math.floor(group.speed * COMPUTE_UNITS),
            )
            for group in self.devices
            for index in range(group.count)
        )

    def terms(self, isolation: Isolation) -> Terms:
        """What has to be kept to under an isolation."""
        return Terms(
            isolation=isolation,
            memory_margin=self.memory_margin,
            slo_margin=self.slo_margin,
            context_mib=math.ceil(self.context_gib * MIB_PER_GIB),
        )


def load_packing(path: Path) -> PackingFile:
    """Read a packing file.

    Raises:
        UserError: It cannot be read or has mistakes, which are all listed, or a device has more memory than there is.
    """
    packing = read_model_file(path, PackingFile, what="packing", keys="keys: name, devices, models, ...")
    for group in packing.devices:
        _refuse_more_than_there_is(group, path)
    return packing


def _refuse_more_than_there_is(group: DeviceGroup, path: Path) -> None:
    """Refuse a device with more memory than its accelerator has: what is packed into it would not fit."""
    chip = load_chips().get(group.accelerator)
    if chip is not None and group.memory_gib * MIB_PER_GIB > chip.memory_mib:
        raise UserError(
            f"devices {group.name}: no {group.accelerator} has so much memory",
            where=str(path),
            found=f"memory_gib {group.memory_gib:g}",
            allowed=f"up to {chip.memory_mib / MIB_PER_GIB:g}",
        )
