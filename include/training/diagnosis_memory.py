"""Rules over memory: too little is left, or far more than needed was rented."""

from __future__ import annotations

from include.core.contracts.diagnosis import Finding, Slowness
from include.training.diagnosis_evidence import Evidence, Missing, known, percent
from include.training.telemetry.facts import GPU_BUSY, GPU_MEMORY_USED, HOST_MEMORY_AVAILABLE, SM_ACTIVE

# The plan leaves 8 % of a device to fragmentation; above this most of that is gone too.
NEARLY_FULL = 0.95
# Half a device has half the memory and half the compute: below both it would do.
HALF = 0.5


def near_out_of_memory(evidence: Evidence) -> Finding | Missing | None:
    """The next larger batch, or the same one after some fragmentation, would not fit."""
    device, host = _device_share(evidence), _host_share(evidence)
    retries = evidence.machine.allocation_retries
    if device is None and host is None:
        return Missing("the memory of device and host")
    on_device = (device or 0.0) >= NEARLY_FULL or bool(retries)
    if not on_device and (host or 0.0) < NEARLY_FULL:
        return None
    again = f", and the allocator had to start over {retries} times" if retries else ""
    where = (
        f"{percent(device)} of the device's memory" if on_device and device else f"{percent(host or 0)} of the host's"
    )
    return Finding(
        kind=Slowness.NEAR_OUT_OF_MEMORY,
        reason=f"{where} was in use at the peak{again}",
        fix="a smaller micro-batch with accumulation, bf16, recomputed activations, sharding; then an offer with more "
        "memory"
        if on_device
        else "fewer loader workers, less prefetch, data that is streamed; then an offer with more memory",
        evidence=known(
            device_memory=device, host_memory=host, allocation_retries=None if retries is None else float(retries)
        ),
    )


def oversized(evidence: Evidence) -> Finding | Missing | None:
    """A device of half the size would do."""
    memory = _device_share(evidence)
    active, busy = evidence.level(SM_ACTIVE), evidence.level(GPU_BUSY)
    compute = active if active is not None else busy
    if memory is None or compute is None:
        return Missing("memory and activity of a device")
    if memory >= HALF or compute >= HALF:
        return None
    return Finding(
        kind=Slowness.OVERSIZED,
        reason=f"{percent(memory)} of the device's memory and {percent(compute)} of its compute are used",
        fix="a smaller device or a slice of one; or a larger batch, if the model still learns as well",
        evidence=known(device_memory=memory, sm_active=active, gpu_busy=busy),
    )


def _device_share(evidence: Evidence) -> float | None:
    """Share of the device's memory at the peak: of tensors where torch tells, since the allocator keeps more."""
    total = evidence.machine.device_memory_bytes
    peaks = [rank.machine.device_peak_bytes for rank in evidence.ranks]
    used = max((peak for peak in peaks if peak is not None), default=None) or evidence.largest(GPU_MEMORY_USED)
    return None if not total or used is None else used / total


def _host_share(evidence: Evidence) -> float | None:
    total, left = evidence.machine.host_memory_bytes, evidence.smallest(HOST_MEMORY_AVAILABLE)
    return None if not total or left is None else 1 - left / total
