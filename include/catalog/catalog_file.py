"""The file format of a list of instance types: validated, dated, nothing guessed."""

from __future__ import annotations

from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from include.config.schedule import Edge

CATALOG = Path(__file__).with_name("aws_offers.json")
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8"]


def _positive_decimal(value: str) -> str:
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number <= 0:
        raise ValueError(f"must be a positive decimal number, found {value!r}")
    return value


Usd = Annotated[str, AfterValidator(_positive_decimal)]


class Sourced(Edge):
    """Where a group of records was read, and when.

    Attributes:
        as_of: Date that the records are of.
        source: Where they were read.
    """

    as_of: date
    source: str = Field(min_length=1)


class Chip(Edge):
    """One kind of accelerator. What has no source is null.

    Attributes:
        memory_mib: Memory of one accelerator.
        tflops: Dense TFLOPS by precision, without structured sparsity.
        memory_bandwidth_gb_per_s: Memory bandwidth in 10^9 bytes per second.
        interconnect: What connects the accelerators of one instance.
        interconnect_gb_per_s: Its bandwidth in 10^9 bytes per second, per accelerator and direction.
        tdp_w: Power of one accelerator under full load, in watts.
        idle_w: Power of one accelerator at idle, in watts.
        idle_source: Where ``idle_w`` was read.
        software: What programs need to use it; the train job is written for ``cuda``.
        as_of: Date that the datasheet figures were entered.
        source: Datasheet.
    """

    memory_mib: PositiveInt
    tflops: dict[Precision, PositiveFloat] = Field(default_factory=dict)
    memory_bandwidth_gb_per_s: PositiveFloat | None = None
    interconnect: str | None = None
    interconnect_gb_per_s: PositiveFloat | None = None
    tdp_w: PositiveFloat | None = None
    idle_w: PositiveFloat | None = None
    idle_source: str | None = None
    software: Literal["cuda", "neuron", "other"] = "cuda"
    as_of: date | None = None
    source: str | None = None

    @model_validator(mode="after")
    def _figures_have_a_source(self) -> Chip:
        figures = (self.memory_bandwidth_gb_per_s, self.interconnect_gb_per_s, self.tdp_w)
        if (self.tflops or any(f is not None for f in figures)) and not (self.source and self.as_of):
            raise ValueError("datasheet figures need 'source' and 'as_of'")
        if self.idle_w is not None and not self.idle_source:
            raise ValueError("'idle_w' needs 'idle_source'")
        return self


class InstanceType(Edge):
    """One instance type with its prices.

    Attributes:
        type: Name of the type.
        chip: Key in ``chips``, None for a CPU type.
        count: Number of accelerators.
        vcpus: Virtual CPUs.
        ram_mib: Host memory.
        ssd_gb: Local NVMe storage in 10^9 bytes, 0 for a type that has none.
        network: Network as the vendor words it.
        network_gbit_per_s: Bandwidth that may be counted on, in 10^9 bits per second: without bursts, all cards.
        arch: Processor architecture.
        purchase: Purchase options that the type can be had with.
        usd_per_h: On-demand price by region.
        regions: Regions that offer the type, of those in the catalog.
    """

    type: str
    chip: str | None
    count: NonNegativeInt
    vcpus: PositiveInt
    ram_mib: PositiveInt
    ssd_gb: NonNegativeInt
    network: str
    network_gbit_per_s: PositiveFloat | None = None
    arch: Literal["x86_64", "arm64"]
    purchase: tuple[Literal["on-demand", "spot"], ...] = Field(min_length=1)
    usd_per_h: dict[str, Usd] = Field(default_factory=dict)
    regions: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> InstanceType:
        if (self.chip is None) != (self.count == 0):
            raise ValueError("'chip' and 'count' go together: both for an accelerator type, none for a CPU type")
        for region in self.usd_per_h:
            if region not in self.regions:
                raise ValueError(f"priced in {region}, which is not among its regions")
        return self


class Catalog(Edge):
    """A whole catalog file."""

    description: str
    currency: Literal["USD"]
    facts: Sourced
    prices: Sourced
    spot: str
    chips: dict[str, Chip]
    types: tuple[InstanceType, ...]

    @model_validator(mode="after")
    def _references(self) -> Catalog:
        unknown = {t.chip for t in self.types if t.chip is not None} - self.chips.keys()
        if unknown:
            raise ValueError(f"types name unknown chips: {sorted(unknown)}")
        names = [t.type for t in self.types]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"types are listed twice: {sorted(twice)}")
        return self


def read_catalog(path: Path = CATALOG) -> Catalog:
    """Parse and validate a catalog file.

    Raises:
        pydantic.ValidationError: The file is damaged; each mistake is listed with its place.
    """
    return Catalog.model_validate_json(path.read_text(encoding="utf-8"))
