"""Rules over the device's activity. Utilisation says only that a kernel ran; no rule decides by it alone.

Levels of NVIDIA's guide to DCGM that the thresholds follow: SM activity below 0.5 is likely ineffective use, 0.8 and
more is needed for effective use; device memory reaches about 0.8 activity at best.
"""

from __future__ import annotations

import statistics

from include.core.contracts.diagnosis import Finding, Slowness
from include.training.diagnosis_evidence import Evidence, Missing, known, percent
from include.training.telemetry.facts import DRAM_ACTIVE, GPU_BUSY, SM_ACTIVE, TENSOR_ACTIVE
from include.training.telemetry.step_facts import StepFacts

SM_EFFECTIVE = 0.5
# Half of what is already likely ineffective.
SM_HARDLY_FILLED = 0.25
# Three quarters of the activity that device memory can reach.
DRAM_FULL = 0.6
# One tensor instruction in twenty possible ones: products that use tensor cores at all show more.
TENSOR_IDLE = 0.05
# A step of two thousand operators takes this long to be launched, at 5 us each.
SHORT_STEP_S = 0.010
ALWAYS_BUSY = 0.98
HALF_THE_TIME = 0.5
# As with waits: a tenth is worth a person's time.
FALL = 0.10
_FEWEST_WINDOWS = 8
_NO_DCGM = "no {} (a DCGM exporter would tell)"


def launch_bound(evidence: Evidence) -> Finding | Missing | None:
    """The host cannot start kernels fast enough, or they are too small to fill the device."""
    busy, active = evidence.level(GPU_BUSY), evidence.level(SM_ACTIVE)
    if active is None or busy is None:
        return Missing(_NO_DCGM.format("SM activity beside the utilisation"))
    dram = evidence.level(DRAM_ACTIVE)
    if active >= SM_HARDLY_FILLED or (dram or 0.0) >= DRAM_FULL:
        return None
    step_s = evidence.steps[0].step_p50_s if evidence.steps else None
    if busy < HALF_THE_TIME and step_s is None:
        return Missing("a device that rests and no step timer: it may wait for anything")
    if busy < HALF_THE_TIME and (step_s or 0.0) > SHORT_STEP_S:
        return None
    return Finding(
        kind=Slowness.LAUNCH_BOUND,
        reason=f"kernels run {percent(busy)} of the time and fill {percent(active)} of the device",
        fix="torch.compile or CUDA graphs, a larger batch, fused optimizer; otherwise a smaller device",
        evidence=known(gpu_busy=busy, sm_active=active, dram_active=dram, step_s=step_s),
    )


def bandwidth_bound(evidence: Evidence) -> Finding | Missing | None:
    """Kernels wait for the device's memory."""
    dram, tensor = evidence.level(DRAM_ACTIVE), evidence.level(TENSOR_ACTIVE)
    if dram is None:
        return Missing(_NO_DCGM.format("activity of the device's memory"))
    if dram < DRAM_FULL or (tensor or 0.0) >= SM_EFFECTIVE:
        return None
    return Finding(
        kind=Slowness.BANDWIDTH_BOUND,
        reason=f"the device's memory is active {percent(dram)} of the time, of about 80 % that it can reach",
        fix="bf16, fused kernels (torch.compile, fused attention and norms), channels_last; a device with more "
        "bandwidth rather than more FLOP/s",
        evidence=known(dram_active=dram, tensor_active=tensor, sm_active=evidence.level(SM_ACTIVE)),
    )


def tensor_cores_idle(evidence: Evidence) -> Finding | Missing | None:
    """The device computes, but not on the units that it was paid for."""
    active, tensor, dram = (evidence.level(name) for name in (SM_ACTIVE, TENSOR_ACTIVE, DRAM_ACTIVE))
    if active is None or tensor is None:
        return Missing(_NO_DCGM.format("tensor activity"))
    if active < SM_EFFECTIVE or tensor >= TENSOR_IDLE or (dram or 0.0) >= DRAM_FULL:
        return None
    return Finding(
        kind=Slowness.TENSOR_CORES_IDLE,
        reason=f"the SMs are active {percent(active)} of the time, the tensor cores {percent(tensor)}",
        fix="precision bf16 (or TF32), sizes that are multiples of 8, channels_last for convolutions",
        evidence=known(sm_active=active, tensor_active=tensor, dram_active=dram),
    )


def batch_too_large(evidence: Evidence) -> Finding | Missing | None:
    """The device is always busy and yet fewer and fewer samples come out."""
    busy = evidence.level(GPU_BUSY)
    if busy is None:
        return Missing("no utilisation of a device")
    if evidence.no_steps:
        return evidence.no_steps
    trend = _trend(evidence.steps[0])
    if trend is None:
        return Missing(f"fewer than {_FEWEST_WINDOWS} stretches of time")
    before, after = trend
    if busy < ALWAYS_BUSY or after > (1 - FALL) * before:
        return None
    return Finding(
        kind=Slowness.BATCH_TOO_LARGE,
        reason=f"the device is {percent(busy)} busy while the throughput fell from {before:.4g} to {after:.4g} "
        "samples/s per worker",
        fix="a smaller micro-batch with accumulation; then look at clocks and temperature",
        evidence=known(
            gpu_busy=busy,
            samples_per_s_before=before,
            samples_per_s_after=after,
            allocation_retries=evidence.machine.allocation_retries,
        ),
    )


def _trend(facts: StepFacts) -> tuple[float, float] | None:
    """Typical throughput in the first and the last quarter of the attempt."""
    rates = [rate for window in facts.windows if (rate := window.samples_per_s)]
    if len(rates) < _FEWEST_WINDOWS:
        return None
    quarter = len(rates) // 4
    return statistics.median(rates[:quarter]), statistics.median(rates[-quarter:])
