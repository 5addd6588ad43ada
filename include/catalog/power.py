"""Power of a whole rented instance, estimated from its parts: no vendor publishes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from include.catalog.catalog_file import Chip

# Averages over processors of AWS, from SPECpower results: Cloud Carbon Footprint, AWS_CLOUD_CONSTANTS (Apache-2.0),
# MIN_WATTS_AVG and MAX_WATTS_AVG per vCPU; MEMORY_COEFFICIENT 0.000392 kWh per GB and hour.
# https://www.cloudcarbonfootprint.org/docs/methodology
HOST_IDLE_W_PER_VCPU = 0.74
HOST_PEAK_W_PER_VCPU = 3.5
HOST_W_PER_GB = 0.392
# Idle power over full power of T4, V100 and A100 in the same project's table (8 of 71, 35 of 306, 46 of 407 W), taken
# for accelerators whose idle power nobody published.
IDLE_OF_TDP = 0.113
_HOST_SOURCE = "host share by Cloud Carbon Footprint's averages for AWS"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePower:
    """Power of a whole instance, in watts; None where a part of it is unknown.

    Attributes:
        idle_w: At idle.
        peak_w: Under full load of processors and accelerators.
        source: Formula with its figures, or what is unknown.
    """

    idle_w: float | None
    peak_w: float | None
    source: str


def instance_power(
    *, vcpus: int, ram_bytes: int, accelerator: str | None, chip: Chip | None, count: int
) -> InstancePower:
    """Estimate idle and peak power of an instance.

    Idle: 0.74 W per vCPU, 0.392 W per GB of memory, and each accelerator's idle power. Peak: 3.5 W per vCPU, the same
    for memory, and each accelerator's TDP. Losses of the building (PUE) are not in it.

    Args:
        vcpus: Virtual CPUs.
        ram_bytes: Host memory.
        accelerator: Its name, None for a CPU type.
        chip: What is known of it.
        count: Number of accelerators.
    """
    memory_w = HOST_W_PER_GB * ram_bytes / 1e9
    idle_w, peak_w = HOST_IDLE_W_PER_VCPU * vcpus + memory_w, HOST_PEAK_W_PER_VCPU * vcpus + memory_w
    host = (
        f"{vcpus} vCPU x {HOST_IDLE_W_PER_VCPU:g} to {HOST_PEAK_W_PER_VCPU:g} W + {ram_bytes / 1e9:.0f} GB x "
        f"{HOST_W_PER_GB:g} W ({_HOST_SOURCE})"
    )
    if chip is None:
        return InstancePower(idle_w=idle_w, peak_w=peak_w, source=f"estimated: {host}; PUE not included")
    if chip.tdp_w is None:
        return InstancePower(idle_w=None, peak_w=None, source=f"unknown: no published power of {accelerator}")
    chip_idle_w = IDLE_OF_TDP * chip.tdp_w if chip.idle_w is None else chip.idle_w
    idle_source = chip.idle_source or f"{IDLE_OF_TDP:.1%} of TDP, as T4, V100 and A100 in Cloud Carbon Footprint"
    return InstancePower(
        idle_w=idle_w + count * chip_idle_w,
        peak_w=peak_w + count * chip.tdp_w,
        source=(
            f"estimated: {count} x {accelerator} {chip_idle_w:.3g} W ({idle_source}) to {chip.tdp_w:g} W "
            f"({chip.source}) + {host}; PUE not included"
        ),
    )
