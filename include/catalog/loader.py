"""Offers of a catalog file: every type x region x purchase option."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from include.catalog.catalog_file import CATALOG, Catalog, Chip, InstanceType, Sourced, read_catalog
from include.catalog.interruptions import stated_rate
from include.catalog.mig import MIG_PROFILES
from include.catalog.power import instance_power
from include.core.contracts.offer import Offer, Price, PurchaseOption

MIB = 2**20
GBIT_BYTES = 1e9 / 8


@cache
def load_chips() -> Mapping[str, Chip]:
    """Accelerators of the bundled list, by name."""
    return MappingProxyType(read_catalog().chips)


@cache
def load_catalog(path: Path = CATALOG) -> tuple[Offer, ...]:
    """Every type x region x purchase option of a catalog file as an offer; spot offers carry no price."""
    return offers_of(read_catalog(path))


def offers_of(catalog: Catalog) -> tuple[Offer, ...]:
    """Every type x region x purchase option as an offer; spot offers carry no price."""
    return tuple(
        instance_offer(
            entry,
            chip=catalog.chips[entry.chip] if entry.chip else None,
            facts=catalog.facts,
            region=region,
            purchase=PurchaseOption(purchase),
            price=_listed_price(catalog, entry, region, purchase),
        )
        for entry in catalog.types
        for region in entry.regions
        for purchase in entry.purchase
    )


def _listed_price(catalog: Catalog, entry: InstanceType, region: str, purchase: str) -> Price | None:
    quoted = entry.usd_per_h.get(region) if purchase == PurchaseOption.ON_DEMAND else None
    if quoted is None:
        return None
    prices = catalog.prices
    return Price(usd_per_h=quoted, as_of=prices.as_of.isoformat(), source=prices.source, method="quoted")


def instance_offer(
    entry: InstanceType,
    *,
    chip: Chip | None,
    facts: Sourced,
    region: str,
    purchase: PurchaseOption,
    price: Price | None,
    zone: str | None = None,
) -> Offer:
    """One offer of an instance type.

    Args:
        entry: Facts of the type.
        chip: Its accelerator, None for a CPU type.
        facts: Date and source of the facts.
        region: Cloud region.
        purchase: Purchase option.
        price: Price, None where it is unknown.
        zone: Availability zone, None for any in the region.
    """
    power = instance_power(
        vcpus=entry.vcpus, ram_bytes=entry.ram_mib * MIB, accelerator=entry.chip, chip=chip, count=entry.count
    )
    rate = stated_rate(purchase, entry.count)
    trainable = chip is not None and chip.software == "cuda"
    bandwidth = chip.memory_bandwidth_gb_per_s if chip else None
    link = chip.interconnect_gb_per_s if chip and entry.count > 1 else None
    return Offer(
        instance_type=entry.type,
        engine="ec2",
        purchase=purchase,
        region=region,
        zone=zone,
        accelerator=entry.chip,
        accelerators=entry.count,
        accelerator_memory_bytes=chip.memory_mib * MIB if chip else None,
        # No rate is given for what the train job cannot use, so that nobody predicts a time on it.
        accelerator_tflops={str(k): v for k, v in chip.tflops.items()} if chip and trainable else {},
        memory_bandwidth_bytes_per_s=bandwidth * 1e9 if bandwidth is not None else None,
        vcpus=entry.vcpus,
        ram_bytes=entry.ram_mib * MIB,
        local_ssd_bytes=entry.ssd_gb * 10**9,
        network=entry.network,
        idle_w=power.idle_w,
        peak_w=power.peak_w,
        price=price,
        facts_as_of=facts.as_of.isoformat(),
        facts_source=f"{facts.source}; {chip.source}" if chip and chip.source else facts.source,
        power_source=power.source,
        interconnect_bytes_per_s=link * 1e9 if link is not None else None,
        network_bytes_per_s=entry.network_gbit_per_s * GBIT_BYTES if entry.network_gbit_per_s is not None else None,
        mig_profiles=MIG_PROFILES.get(entry.chip or "", ()),
        interruptions_per_h=rate.per_h if rate else None,
        interruptions_source=rate.source if rate else None,
        flags=()
        if chip is None or trainable
        else (f"no CUDA device but {chip.software}: the train job cannot use it",),
    )
