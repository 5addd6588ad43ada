"""How long one optimizer step takes on an offer, from what the step needs and what the hardware can do."""

from __future__ import annotations

from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer
from include.sizing.assumptions import LAUNCH_S, REACHED_BANDWIDTH, REACHED_FLOP


def step_s(demand: Demand, offer: Offer, *, batch: int, precision: str) -> float | None:
    """Seconds of one step, None where a fact is missing.

    On this machine: the CPU seconds measured there, shared out over the worker's threads. On an accelerator, the
    roofline of Williams, Waterman, Patterson (CACM 2009), read pessimistically: arithmetic and memory traffic do not
    overlap, and launches from Python set the floor.

    Args:
        demand: What a step needs.
        offer: Where it runs; one accelerator is used.
        batch: Samples per optimizer step.
        precision: ``fp32`` or ``bf16``; looked up in the offer's datasheet figures.
    """
    if offer.engine == "local":
        return None if demand.cpu_s_per_step is None else demand.cpu_s_per_step / demand.vcpus
    tflops = offer.accelerator_tflops.get(precision)
    bandwidth = offer.memory_bandwidth_bytes_per_s
    if tflops is None or bandwidth is None:
        return None
    arithmetic = demand.flop_per_sample * batch / (REACHED_FLOP * tflops * 1e12)
    traffic = demand.bytes_moved_per_sample * batch / (REACHED_BANDWIDTH * bandwidth)
    return max(arithmetic + traffic, demand.ops_per_step * LAUNCH_S)
