"""How long the arithmetic of one optimizer step takes, from what the step needs and what the hardware can do. Pure."""

from __future__ import annotations

from include.core.contracts.demand import Demand
from include.sizing.assumptions import LAUNCH_S, REACHED_BANDWIDTH, REACHED_FLOP
from include.sizing.demand_table import StepWork


def device_s(work: StepWork, *, tflops: float, bandwidth: float) -> float:
    """Seconds of one worker's step on its accelerator.

    The roofline of Williams, Waterman, Patterson (CACM 2009), read pessimistically: arithmetic and memory traffic do
    not overlap, and launches from Python set the floor.

    Args:
        work: Work of the step.
        tflops: Dense TFLOPS of the accelerator in the precision of the training.
        bandwidth: Bytes per second of its memory.
    """
    arithmetic = work.flop / (REACHED_FLOP * tflops * 1e12)
    traffic = work.bytes_moved / (REACHED_BANDWIDTH * bandwidth)
    return max(arithmetic + traffic, work.ops * LAUNCH_S)


def local_s(demand: Demand) -> float | None:
    """Seconds of a step on the cores of this machine: the CPU seconds measured there over the worker's threads."""
    return None if demand.cpu_s_per_step is None else demand.cpu_s_per_step / demand.vcpus
