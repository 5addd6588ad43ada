"""What can be rented, and at what price on which day."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PurchaseOption(StrEnum):
    """How capacity is paid for."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of one hour of an offer.

    Attributes:
        usd_per_h: Decimal number as a string, in US dollars per hour.
        as_of: ISO date of the price.
        source: Where the price was read.
        method: ``quoted`` from a price list or ``estimated`` with the formula named in ``source``.
    """

    usd_per_h: str
    as_of: str
    source: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Instance type x purchase option x zone. A fact without a source is None.

    Attributes:
        instance_type: Name of the type, ``this-machine`` for the local offer.
        engine: Which engine can launch it.
        purchase: Purchase option.
        region: Cloud region, ``local`` for this machine.
        zone: Availability zone, None for "any in the region".
        accelerator: Name of the accelerator, None for a CPU type.
        accelerators: Number of accelerators.
        accelerator_memory_bytes: Memory of each accelerator.
        accelerator_tflops: Dense TFLOPS per accelerator by precision, empty where there is no source.
        memory_bandwidth_bytes_per_s: Memory bandwidth per accelerator.
        vcpus: Virtual CPUs.
        ram_bytes: Host memory.
        local_ssd_bytes: Local NVMe storage.
        network: Network as the vendor words it.
        idle_w: Power of the whole instance at idle, in watts.
        peak_w: Power of the whole instance under full load, in watts.
        price: Price with date and source; an offer without one is listed but never chosen by cost.
        facts_as_of: ISO date of the hardware facts.
        facts_source: Source of the hardware facts.
        power_source: Where the powers come from and whether they are measured or estimated.
        interconnect_bytes_per_s: Bandwidth between the accelerators of one instance, per accelerator and direction.
        network_bytes_per_s: Bandwidth between instances.
        mig_profiles: Partition profiles that the accelerator can be cut into, empty without the capability.
        mig_profile: Set for an offer that is one partition of an accelerator.
        interruptions_per_h: Expected interruptions per hour of this offer, None where nobody said.
        interruptions_source: Where that rate comes from.
        flags: What a reader has to know about the offer: an old price, an estimated price.
    """

    instance_type: str
    engine: str
    purchase: PurchaseOption
    region: str
    zone: str | None
    accelerator: str | None
    accelerators: int
    accelerator_memory_bytes: int | None
    accelerator_tflops: dict[str, float]
    memory_bandwidth_bytes_per_s: float | None
    vcpus: int
    ram_bytes: int
    local_ssd_bytes: int | None
    network: str | None
    idle_w: float | None
    peak_w: float | None
    price: Price | None
    facts_as_of: str
    facts_source: str
    power_source: str | None = None
    interconnect_bytes_per_s: float | None = None
    network_bytes_per_s: float | None = None
    mig_profiles: tuple[str, ...] = ()
    mig_profile: str | None = None
    interruptions_per_h: float | None = None
    interruptions_source: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Short name for tables: type, option, and the zone where it is of one, else the region."""
        return f"{self.instance_type}/{self.purchase.value}/{self.zone or self.region}"
