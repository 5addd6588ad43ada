"""The bundled catalog of AWS offers: validated, dated, nothing guessed."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from include.config.schedule import Edge
from include.core.contracts.offer import Offer, Price, PurchaseOption

CATALOG = Path(__file__).with_name("aws_offers.json")
MIB = 2**20


class Sourced(Edge):
    """Where a group of records was read, and when.

    Attributes:
        as_of: Date that the records are of.
        source: Where they were read.
    """

    as_of: date
    source: str = Field(min_length=1)


class Chip(Edge):
    """One kind of accelerator.

    Attributes:
        memory_mib: Memory of one accelerator.
        tflops: Dense TFLOPS by precision; empty without a source.
        memory_bandwidth_gb_per_s: Memory bandwidth in 10^9 bytes per second.
        as_of: Date that the datasheet figures were entered.
        source: Datasheet.
    """

    memory_mib: PositiveInt
    tflops: dict[Literal["fp32", "bf16", "fp16"], PositiveFloat]
    memory_bandwidth_gb_per_s: PositiveFloat | None
    as_of: date | None
    source: str | None

    @model_validator(mode="after")
    def _figures_have_a_source(self) -> Chip:
        if (self.tflops or self.memory_bandwidth_gb_per_s is not None) and not (self.source and self.as_of):
            raise ValueError("datasheet figures need 'source' and 'as_of'")
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
    arch: Literal["x86_64", "arm64"]
    purchase: tuple[Literal["on-demand", "spot"], ...] = Field(min_length=1)
    usd_per_h: dict[str, str]
    regions: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> InstanceType:
        if (self.chip is None) != (self.count == 0):
            raise ValueError("'chip' and 'count' go together: both for an accelerator type, none for a CPU type")
        for region, price in self.usd_per_h.items():
            if region not in self.regions:
                raise ValueError(f"priced in {region}, which is not among its regions")
            try:
                positive = float(price) > 0
            except ValueError:
                positive = False
            if not positive:
                raise ValueError(f"price in {region} must be a positive decimal number, found {price!r}")
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


@cache
def load_catalog(path: Path = CATALOG) -> tuple[Offer, ...]:
    """Every type x region x purchase option of a catalog file as an offer; spot offers carry no price."""
    catalog = read_catalog(path)
    return tuple(
        _offer(catalog, entry, region, PurchaseOption(purchase))
        for entry in catalog.types
        for region in entry.regions
        for purchase in entry.purchase
    )


def _offer(catalog: Catalog, entry: InstanceType, region: str, purchase: PurchaseOption) -> Offer:
    chip = catalog.chips[entry.chip] if entry.chip else None
    quoted = entry.usd_per_h.get(region) if purchase is PurchaseOption.ON_DEMAND else None
    prices = catalog.prices
    price = quoted and Price(usd_per_h=quoted, as_of=prices.as_of.isoformat(), source=prices.source, method="quoted")
    bandwidth = chip.memory_bandwidth_gb_per_s if chip else None
    datasheet = f"; {chip.source}" if chip and chip.source else ""
    return Offer(
        instance_type=entry.type,
        engine="ec2",
        purchase=purchase,
        region=region,
        zone=None,
        accelerator=entry.chip,
        accelerators=entry.count,
        accelerator_memory_bytes=chip.memory_mib * MIB if chip else None,
        accelerator_tflops={str(k): v for k, v in chip.tflops.items()} if chip else {},
        memory_bandwidth_bytes_per_s=bandwidth * 1e9 if bandwidth is not None else None,
        vcpus=entry.vcpus,
        ram_bytes=entry.ram_mib * MIB,
        local_ssd_bytes=entry.ssd_gb * 10**9,
        network=entry.network,
        idle_w=None,  # the vendor publishes no power per instance type
        peak_w=None,
        price=price or None,
        facts_as_of=catalog.facts.as_of.isoformat(),
        facts_source=f"{catalog.facts.source}{datasheet}",
    )
