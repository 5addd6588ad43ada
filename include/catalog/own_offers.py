"""Offers of a user's catalog file: own machines, their partitions, and rented types at committed prices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from include.catalog.catalog_file import Chip
from include.catalog.interruptions import InterruptionRate, stated_rate
from include.catalog.mig import MIG_PROFILES, USABLE_OF_MEMORY_SLICE, MigProfile, mig_profiles
from include.catalog.own_file import Commitment, Machine, OwnCatalog, Priced
from include.catalog.power import InstancePower, instance_power
from include.core.contracts.offer import Offer, Price, PurchaseOption
from include.core.errors import UserError

GIB = 2**30
MIB = 2**20
GBIT_BYTES = 1e9 / 8
_USD_DIGITS = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFile:
    """A user's file and where it lies.

    Attributes:
        path: The file, named in sources and errors.
        catalog: What is in it.
    """

    path: str
    catalog: OwnCatalog


def machine_offers(own: OwnFile, *, chips: Mapping[str, Chip]) -> tuple[Offer, ...]:
    """Own machines as offers, and one more for each partition of those that are cut.

    Args:
        own: The user's file.
        chips: Accelerators of the bundled list; those of the file come first.

    Raises:
        UserError: A machine has an accelerator that nobody described, or is cut and cannot be.
    """
    known = {**chips, **own.catalog.accelerators}
    return tuple(offer for machine in own.catalog.machines for offer in _machine(machine, own=own, chips=known))


def _machine(machine: Machine, *, own: OwnFile, chips: Mapping[str, Chip]) -> tuple[Offer, ...]:
    if machine.accelerator is not None and machine.accelerator not in chips:
        raise UserError(
            f"machine {machine.name}: accelerator is not described",
            where=own.path,
            found=machine.accelerator,
            allowed=", ".join(chips),
            todo="describe it below 'accelerators', from its datasheet",
        )
    whole = _whole(machine, own=own, chip=chips[machine.accelerator] if machine.accelerator else None)
    if not machine.mig:
        return (whole,)
    profiles = mig_profiles(machine.accelerator or "")
    if not profiles:
        raise UserError(
            f"machine {machine.name}: 'mig' on an accelerator without known partitions",
            where=own.path,
            found=str(machine.accelerator),
            allowed=", ".join(MIG_PROFILES),
        )
    return (whole, *(partition(whole, profile) for profile in profiles))


def _whole(machine: Machine, *, own: OwnFile, chip: Chip | None) -> Offer:
    power = _power(machine, chip)
    rate = _rate(machine)
    bandwidth = chip.memory_bandwidth_gb_per_s if chip else None
    link = machine.interconnect_gb_per_s or (chip.interconnect_gb_per_s if chip else None)
    facts = f"stated in {own.path}"
    return Offer(
        instance_type=machine.name,
        engine=machine.engine,
        purchase=PurchaseOption.LOCAL,
        region=machine.region,
        zone=None,
        accelerator=machine.accelerator,
        accelerators=machine.accelerators,
        accelerator_memory_bytes=chip.memory_mib * MIB if chip else None,
        accelerator_tflops={str(k): v for k, v in chip.tflops.items()} if chip and chip.software == "cuda" else {},
        memory_bandwidth_bytes_per_s=bandwidth * 1e9 if bandwidth is not None else None,
        vcpus=machine.vcpus,
        ram_bytes=round(machine.ram_gib * GIB),
        local_ssd_bytes=None if machine.local_ssd_gb is None else round(machine.local_ssd_gb * 1e9),
        network=None if machine.network_gbit_per_s is None else f"{machine.network_gbit_per_s:g} Gigabit",
        idle_w=power.idle_w,
        peak_w=power.peak_w,
        price=_price(machine),
        facts_as_of=machine.price_as_of.isoformat(),
        facts_source=f"{facts}; {chip.source}" if chip and chip.source else facts,
        power_source=power.source,
        interconnect_bytes_per_s=link * 1e9 if link is not None and machine.accelerators > 1 else None,
        network_bytes_per_s=None if machine.network_gbit_per_s is None else machine.network_gbit_per_s * GBIT_BYTES,
        mig_profiles=MIG_PROFILES.get(machine.accelerator or "", ()),
        interruptions_per_h=rate.per_h if rate else None,
        interruptions_source=rate.source if rate else None,
    )


def _price(entry: Priced) -> Price:
    return Price(
        usd_per_h=entry.usd_per_h, as_of=entry.price_as_of.isoformat(), source=entry.price_source, method="quoted"
    )


def _power(machine: Machine, chip: Chip | None) -> InstancePower:
    if machine.peak_w is not None:
        return InstancePower(idle_w=machine.idle_w, peak_w=machine.peak_w, source="stated, not measured")
    return instance_power(
        vcpus=machine.vcpus,
        ram_bytes=round(machine.ram_gib * GIB),
        accelerator=machine.accelerator,
        chip=chip,
        count=machine.accelerators,
    )


def _rate(machine: Machine) -> InterruptionRate | None:
    if machine.interruptions_per_h is not None:
        return InterruptionRate(per_h=machine.interruptions_per_h, source="stated by the user")
    return stated_rate(PurchaseOption.LOCAL, machine.accelerators)


def partition(whole: Offer, profile: MigProfile) -> Offer:
    """One partition of one accelerator, with its share of the machine.

    Memory and bandwidth go by memory slices, arithmetic by compute slices; price, host and power by the share of the
    machine that nobody else can have. The price is an estimate: it holds when others use the rest.

    Args:
        whole: The machine; it has accelerators with memory.
        profile: The kind of partition.
    """
    assert whole.accelerator_memory_bytes is not None
    share = profile.occupied_share / whole.accelerators
    bandwidth = whole.memory_bandwidth_bytes_per_s
    ssd = whole.local_ssd_bytes
    return replace(
        whole,
        instance_type=f"{whole.instance_type}:{profile.name}",
        accelerators=1,
        accelerator_memory_bytes=round(USABLE_OF_MEMORY_SLICE * profile.memory_share * whole.accelerator_memory_bytes),
        accelerator_tflops={name: rate * profile.compute_share for name, rate in whole.accelerator_tflops.items()},
        memory_bandwidth_bytes_per_s=None if bandwidth is None else bandwidth * profile.memory_share,
        vcpus=max(1, int(whole.vcpus * share)),
        ram_bytes=int(whole.ram_bytes * share),
        local_ssd_bytes=None if ssd is None else int(ssd * share),
        idle_w=None if whole.idle_w is None else whole.idle_w * share,
        peak_w=None if whole.peak_w is None else whole.peak_w * share,
        power_source=f"{share:.1%} of the machine; {whole.power_source}",
        price=None if whole.price is None else _share_of(whole.price, share),
        interconnect_bytes_per_s=None,
        mig_profiles=(),
        mig_profile=profile.name,
        flags=(*whole.flags, "estimated price: a share of the machine, which holds when others use the rest"),
    )


def _share_of(price: Price, share: float) -> Price:
    usd = (Decimal(price.usd_per_h) * Decimal(str(share))).quantize(_USD_DIGITS)
    source = f"{share:.1%} of {price.usd_per_h} USD/h; {price.source}"
    return replace(price, usd_per_h=format(usd.normalize(), "f"), source=source, method="estimated")


def committed_offers(
    own: OwnFile, *, rented: tuple[Offer, ...], today: date
) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Rented types at the committed prices of reservations and savings plans that hold today.

    Args:
        own: The user's file.
        rented: Offers of the other lists, for the facts of the types.
        today: Day on which they must hold.

    Returns:
        The offers, and one note per commitment that is over.

    Raises:
        UserError: A type that nobody described, or a machine with the name of one.
    """
    facts = {offer.instance_type: offer for offer in rented}
    if taken := sorted(facts.keys() & {machine.name for machine in own.catalog.machines}):
        raise UserError(
            "a machine has the name of a rented type",
            where=own.path,
            found=", ".join(taken),
            allowed="names of one's own; a committed price of a rented type goes below 'commitments'",
        )
    offers, notes = [], []
    for entry in own.catalog.commitments:
        if entry.instance_type not in facts:
            raise UserError("commitment for an unknown instance type", where=own.path, found=entry.instance_type)
        if entry.until < today:
            notes.append(f"{entry.kind} of {entry.instance_type} ended on {entry.until.isoformat()} and is left out")
            continue
        offers.append(_committed(entry, facts[entry.instance_type]))
    return tuple(offers), tuple(notes)


def _committed(entry: Commitment, facts: Offer) -> Offer:
    rate = stated_rate(PurchaseOption.RESERVED, facts.accelerators)
    return replace(
        facts,
        purchase=PurchaseOption.RESERVED,
        region=entry.region,
        zone=entry.zone,
        price=_price(entry),
        interruptions_per_h=rate.per_h if rate else None,
        interruptions_source=rate.source if rate else None,
        flags=(f"{entry.kind} until {entry.until.isoformat()}",),
    )
