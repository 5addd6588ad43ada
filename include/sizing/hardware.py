"""Accelerated hardware of an offer, as far as a step goes. Pure."""

from __future__ import annotations

from typing import NamedTuple

from include.core.contracts.offer import Offer


class Device(NamedTuple):
    """What tells one kind of accelerated hardware from another, as far as a step goes."""

    name: str
    accelerators: int
    memory_bytes: int
    tflops: float
    bandwidth: float
    interconnect: float | None
    partition: str | None


def device_name(offer: Offer) -> str:
    """Under which name corrections of an offer's hardware are kept."""
    return offer.accelerator or offer.instance_type


def device_of(offer: Offer, precision: str) -> Device | None:
    """The offer's accelerators, None where a fact is missing."""
    tflops, bandwidth = offer.accelerator_tflops.get(precision), offer.memory_bandwidth_bytes_per_s
    if not offer.accelerators or offer.accelerator_memory_bytes is None or tflops is None or bandwidth is None:
        return None
    return Device(
        name=offer.accelerator or "accelerator",
        accelerators=offer.accelerators,
        memory_bytes=offer.accelerator_memory_bytes,
        tflops=tflops,
        bandwidth=bandwidth,
        interconnect=offer.interconnect_bytes_per_s,
        partition=offer.mig_profile,
    )


def worker_counts(offer: Offer, instances: int) -> tuple[int, ...]:
    """Workers in one instance: part of its accelerators where it stands alone, all of them otherwise."""
    if offer.mig_profile or offer.engine == "local":
        return (1,)
    if instances > 1:
        return (offer.accelerators,)
    return tuple(n for n in range(1, offer.accelerators + 1) if offer.accelerators % n == 0)
