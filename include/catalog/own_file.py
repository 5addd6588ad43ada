"""The user's catalog file: own machines with their price, reservations and savings plans."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    field_validator,
    model_validator,
)

from include.catalog.catalog_file import Chip, Usd
from include.catalog.local import THIS_MACHINE
from include.config.loader import read_model_file
from include.config.schedule import Edge
from include.core.regions import CLOUD_REGIONS, HERE, WORLD

EXAMPLE = Path(__file__).with_name("own_catalog_example.yaml")


def _as_decimal_text(value: Any) -> Any:  # noqa: ANN401 - raw YAML
    """A number as decimal text, since prices are decimal; anything else as it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return format(Decimal(str(value)), "f") if is_number else value


OwnUsd = Annotated[Usd, BeforeValidator(_as_decimal_text)]


class Priced(Edge):
    """A price with its day and its source.

    Attributes:
        region: Where it stands: a cloud region, whose grid counts for carbon, or ``world`` or ``local``.
        usd_per_h: Price of one hour.
        price_as_of: Day of the price.
        price_source: Where the price comes from, for people.
    """

    region: str
    usd_per_h: OwnUsd
    price_as_of: date
    price_source: str = Field(min_length=1)

    @field_validator("region")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in CLOUD_REGIONS and value not in (WORLD, HERE):
            raise ValueError(f"one of {', '.join((*CLOUD_REGIONS, WORLD, HERE))}")
        return value


class Machine(Priced):
    """A machine of one's own.

    Attributes:
        name: Name of the kind of machine.
        engine: Engine that can launch on it: ``local``, ``ec2``, or one's own such as ``slurm``; there is no default.
        accelerator: Name of the accelerator, None without.
        accelerators: Number of accelerators.
        vcpus: Threads of its processors.
        ram_gib: Memory in 2^30 bytes.
        local_ssd_gb: Local storage in 10^9 bytes.
        network_gbit_per_s: Bandwidth between such machines, in 10^9 bits per second.
        interconnect_gb_per_s: Bandwidth between its accelerators, per accelerator and direction, in 10^9 bytes per
            second; default: what is known of the accelerator.
        idle_w: Power at idle; with ``peak_w``, or neither.
        peak_w: Power under full load.
        interruptions_per_h: How often the machine is taken away from a job.
        mig: Whether its accelerators are cut into partitions, each an offer of its own.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,60}$")
    engine: str = Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")
    accelerator: str | None = None
    accelerators: int = Field(default=0, ge=0, le=1024)
    vcpus: int = Field(ge=1, le=100_000)
    ram_gib: float = Field(gt=0, le=1e6)
    local_ssd_gb: float | None = Field(default=None, ge=0, le=1e8)
    network_gbit_per_s: float | None = Field(default=None, gt=0, le=1e6)
    interconnect_gb_per_s: float | None = Field(default=None, gt=0, le=1e6)
    idle_w: float | None = Field(default=None, gt=0, le=1e7)
    peak_w: float | None = Field(default=None, gt=0, le=1e7)
    interruptions_per_h: float | None = Field(default=None, ge=0, le=3600)
    mig: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Machine:
        if (self.accelerator is None) != (self.accelerators == 0):
            raise ValueError("'accelerator' and 'accelerators' go together: the name and how many, or neither")
        if (self.idle_w is None) != (self.peak_w is None):
            raise ValueError("'idle_w' and 'peak_w' go together: both stated, or neither, and then they are estimated")
        if self.idle_w is not None and self.peak_w is not None and self.idle_w > self.peak_w:
            raise ValueError("'idle_w' must not be above 'peak_w'")
        return self


class Commitment(Priced):
    """A reservation or a savings plan: a rented type at a committed price.

    Attributes:
        instance_type: The type, as in the list of rented types.
        kind: What was bought; says only what the price is called.
        zone: Zone of the region that capacity is reserved in; None for a discount without capacity.
        until: Last day on which it holds.
    """

    instance_type: str
    kind: Literal["reservation", "savings-plan"]
    zone: str | None = None
    until: date

    @model_validator(mode="after")
    def _zone_goes_with_capacity(self) -> Commitment:
        if self.kind == "savings-plan" and self.zone is not None:
            raise ValueError("'zone' goes with a reservation; a savings plan reserves no capacity")
        if self.zone is not None and not (self.zone.startswith(self.region) and self.zone != self.region):
            raise ValueError(f"'zone' is one of region {self.region}, such as {self.region}a")
        return self


class OwnCatalog(Edge):
    """A whole catalog file of a user.

    Attributes:
        currency: Of all prices.
        accelerators: Accelerators that the bundled list does not know.
        machines: Own machines.
        commitments: Reservations and savings plans.
    """

    currency: Literal["USD"]
    accelerators: dict[str, Chip] = Field(default_factory=dict)
    machines: tuple[Machine, ...] = ()
    commitments: tuple[Commitment, ...] = ()

    @field_validator("machines")
    @classmethod
    def _names_are_unique(cls, value: tuple[Machine, ...]) -> tuple[Machine, ...]:
        _refuse_twice([machine.name for machine in value])
        if any(machine.name == THIS_MACHINE for machine in value):
            raise ValueError(f"a name other than {THIS_MACHINE!r}, which is taken")
        return value

    @field_validator("commitments")
    @classmethod
    def _commitments_are_unique(cls, value: tuple[Commitment, ...]) -> tuple[Commitment, ...]:
        _refuse_twice([f"{entry.instance_type} in {entry.zone or entry.region}" for entry in value])
        return value


def _refuse_twice(names: Iterable[str]) -> None:
    listed = list(names)
    if twice := sorted({name for name in listed if listed.count(name) > 1}):
        raise ValueError(f"each of them once; listed twice: {', '.join(twice)}")


def read_own_catalog(path: Path) -> OwnCatalog:
    """Parse and validate a user's catalog file.

    Raises:
        UserError: The file cannot be read or has mistakes; one line for each of them.
    """
    return read_model_file(path, OwnCatalog, what="catalog", keys=f"keys: {', '.join(OwnCatalog.model_fields)}")
