"""This machine as an offer: what it can do, and what an hour of it costs in electricity."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import psutil

from include.config.settings import Settings
from include.core.clock import SystemClock
from include.core.contracts.offer import Offer, Price, PurchaseOption

THIS_MACHINE = "this-machine"
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def usable_cores() -> int:
    """CPU cores this process may run on."""
    return len(os.sched_getaffinity(0))


def usable_ram_bytes(limit: Path = CGROUP_LIMIT) -> int:
    """Memory of this machine, or of the container if that is less."""
    total = int(psutil.virtual_memory().total)
    try:
        text = limit.read_text(encoding="ascii").strip()
    except OSError:
        return total
    return min(total, int(text)) if text.isdigit() else total


def local_offer(
    settings: Settings, *, today: date | None = None, cores: int | None = None, ram_bytes: int | None = None
) -> Offer:
    """The offer that costs only electricity.

    Args:
        settings: Tariff and stated powers of this machine.
        today: Date of the facts, which are read from the system now; default: today.
        cores: Cores to count on; default: those this process may use.
        ram_bytes: Memory to count on; default: this machine's or container's.
    """
    usd_per_h = Decimal(settings.usd_per_kwh) * Decimal(str(settings.peak_w)) / 1000
    source = (
        f"electricity only: {settings.usd_per_kwh} USD/kWh (stated, as of {settings.tariff_as_of}) "
        f"x {settings.peak_w:g} W stated peak power / 1000; "
        "charged for the whole machine and all paid time, while energy counts the CPU seconds of the work alone"
    )
    return Offer(
        instance_type=THIS_MACHINE,
        engine="local",
        purchase=PurchaseOption.LOCAL,
        region="local",
        zone=None,
        accelerator=None,
        accelerators=0,
        accelerator_memory_bytes=None,
        accelerator_tflops={},
        memory_bandwidth_bytes_per_s=None,
        vcpus=cores or usable_cores(),
        ram_bytes=ram_bytes or usable_ram_bytes(),
        local_ssd_bytes=None,
        network=None,
        idle_w=settings.idle_w,
        peak_w=settings.peak_w,
        price=Price(
            usd_per_h=format(usd_per_h.normalize(), "f"), as_of=settings.tariff_as_of, source=source, method="estimated"
        ),
        facts_as_of=(today or SystemClock().now().date()).isoformat(),
        facts_source="the operating system of this machine; powers are stated, not measured",
    )
