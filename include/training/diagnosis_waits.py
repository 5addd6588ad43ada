"""Rules over the step timer: time that the loop spends on anything but computing."""

from __future__ import annotations

import statistics

from include.core.contracts.diagnosis import Finding, Slowness
from include.training.diagnosis_evidence import Evidence, Missing, known, percent
from include.training.telemetry.facts import (
    GPU_BUSY,
    GPU_MEMORY_BUSY,
    HOST_CPU,
    HOST_IO_WAIT,
    LOADER_QUEUE,
    NETWORK_RECEIVED,
    PCIE_TO_DEVICE,
    SM_ACTIVE,
    WORKER_CPU,
)
from include.training.telemetry.step_facts import StepFacts

# A tenth of a day's run is hours: less is not worth a person's time, and runs differ by some per cent anyway.
WORTH_IT = 0.10
# What checkpointing may cost altogether (CheckFreq, FAST 2021, bounds it by 3.5 %).
SAVE_SHARE = 0.035
# Above this all cores are taken, seen from outside: schedulers leave some per cent unused.
CPU_FULL = 0.85
IO_WAIT = 0.10
MOSTLY = 0.5
# The host decides nothing, it only tells which fix to try first.
_FEWEST_OF_HOST = 3
# Long copies reach about four fifths of a PCIe link's line rate; three quarters of that.
LINK_FULL = 0.6
# NVIDIA's guide to DCGM: SM activity of 0.8 and more is what effective use needs. Copies beside that are hidden.
DEVICE_FULL = 0.8
# The backward pass computes twice what the forward pass does.
STEP_PER_FORWARD = 3


def data_bound(evidence: Evidence) -> Finding | Missing | None:
    """The loop waits for batches."""
    if evidence.no_steps:
        return evidence.no_steps
    share = evidence.share("data_wait")
    if share is None:
        return Missing("the loop does not time its waiting for data")
    if share < WORTH_IT:
        return None
    cause, fix = _why_data_is_late(evidence)
    return Finding(
        kind=Slowness.DATA_BOUND,
        reason=f"{percent(share)} of the time the loop waits for data; {cause}",
        fix=fix,
        evidence=known(
            data_wait=share,
            host_cpu=evidence.level(HOST_CPU, fewest=_FEWEST_OF_HOST),
            worker_cpu=evidence.level(WORKER_CPU, fewest=_FEWEST_OF_HOST),
            host_io_wait=evidence.level(HOST_IO_WAIT, fewest=_FEWEST_OF_HOST),
            network_received_bytes_per_s=evidence.level(NETWORK_RECEIVED, fewest=_FEWEST_OF_HOST),
            loader_queue=evidence.level(LOADER_QUEUE, fewest=_FEWEST_OF_HOST),
        ),
        lost_share=share,
    )


def _why_data_is_late(evidence: Evidence) -> tuple[str, str]:
    cpu, own, io_wait = (evidence.level(name, fewest=_FEWEST_OF_HOST) for name in (HOST_CPU, WORKER_CPU, HOST_IO_WAIT))
    own_of_all = None if own is None else own * len(evidence.ranks)
    if cpu is not None and cpu >= CPU_FULL and own_of_all is not None and own_of_all < MOSTLY * cpu:
        return (
            f"the host's CPUs are full ({percent(cpu)}), mostly with other programs (this one: {percent(own_of_all)})",
            "a machine of its own; if that changes nothing, more loader workers, then larger shards and an SSD cache",
        )
    if cpu is not None and cpu >= CPU_FULL:
        return (
            f"the host's CPUs are full ({percent(cpu)}): decoding is too expensive",
            "store smaller or decoded samples, cache what was decoded, or take an offer with more vCPUs per device",
        )
    if io_wait is not None and io_wait >= IO_WAIT:
        return (
            f"the CPUs wait for disks {percent(io_wait)} of the time",
            "larger shards, a cache on a local SSD, more prefetch",
        )
    meanwhile = (
        "what the host did meanwhile was not measured for long enough"
        if cpu is None
        else f"neither CPUs ({percent(cpu)}) nor disks are full"
    )
    return (
        meanwhile,
        "more loader workers and more prefetch; if that changes nothing, the store is slow: larger shards, SSD cache",
    )


def copy_bound(evidence: Evidence) -> Finding | Missing | None:
    """Copies from the host to the device hold up the step. Busy device memory alone says nothing about copies."""
    share = evidence.share("h2d")
    rate, link = evidence.level(PCIE_TO_DEVICE), evidence.machine.pcie_bytes_per_s
    filled = rate / link if rate is not None and link else None
    if share is None and filled is None:
        return Missing("neither the copies to the device are timed nor the PCIe traffic and its limit known")
    active = evidence.level(SM_ACTIVE)
    resting = (active if active is not None else evidence.level(GPU_BUSY) or 0.0) < DEVICE_FULL
    timed, full = (share or 0.0) >= WORTH_IT, (filled or 0.0) >= LINK_FULL and resting
    if not timed and not full:
        return None
    parts = [f"{percent(share)} of the time goes into copies to the device"] if timed and share else []
    parts += [f"the link carries {percent(filled)} of its rate while the device rests"] if full and filled else []
    return Finding(
        kind=Slowness.COPY_BOUND,
        reason=", and ".join(parts),
        fix="pinned memory and copies that do not block, smaller types (uint8 images, bf16), augment on the device",
        evidence=known(
            h2d=share,
            pcie_to_device_bytes_per_s=rate,
            pcie_bytes_per_s=link,
            gpu_memory_busy=evidence.level(GPU_MEMORY_BUSY),
        ),
        lost_share=share if timed else None,
    )


def save_stall(evidence: Evidence) -> Finding | Missing | None:
    """The loop stands still while checkpoints are written."""
    if evidence.no_steps:
        return evidence.no_steps
    share = evidence.share("save")
    if share is None:
        return Missing("no checkpoint was saved, or saving is not timed")
    if share < SAVE_SHARE:
        return None
    saves = [facts.parts["save"] for facts in evidence.steps]
    return Finding(
        kind=Slowness.SAVE_STALL,
        reason=f"{percent(share)} of the time the loop stands still for checkpoints; a good save costs "
        f"{percent(SAVE_SHARE)} at most",
        fix="save less often (let the plan choose the interval), save in the background with a reused stager, write "
        "to a local disk first",
        evidence=known(
            save=share,
            saves=float(max(part.entries for part in saves)),
            longest_save_s=max(part.longest_s for part in saves),
        ),
        lost_share=share,
    )


def straggler(evidence: Evidence) -> Finding | Missing | None:
    """One rank is slower than the others, which wait for it."""
    if evidence.world == 1:
        return Missing("one worker has nobody to wait for")
    if len(evidence.steps) < 2:  # noqa: PLR2004 - a comparison needs two
        return evidence.no_steps or Missing("the telemetry of the other ranks")
    own = [_own_s(facts) for facts in evidence.steps]
    slowest = max(own)
    others = statistics.median(sorted(own)[:-1])
    step_s = statistics.median([facts.step_p50_s or 0.0 for facts in evidence.steps])
    lost = (slowest - others) / step_s if step_s > 0 else 0.0
    if lost < WORTH_IT:
        return None
    rank = evidence.steps[own.index(slowest)].rank
    ratio = slowest / others if others > 0 else None
    longer = f"{ratio:.2f} times as long as" if ratio else f"{slowest:.3g} s longer than"
    return Finding(
        kind=Slowness.STRAGGLER,
        reason=f"rank {rank} needs {longer} the others before gradients are exchanged",
        fix=f"look at the machine of rank {rank} (other programs, clocks, its disk); give all ranks equal shards and "
        "batches",
        evidence=known(rank=float(rank), ratio=ratio, own_s=slowest, others_s=others, step_s=step_s),
        lost_share=min(1.0, lost),
    )


def _own_s(facts: StepFacts) -> float:
    """What a rank does by itself in a median step. The exchange of gradients makes all ranks equally slow after it.

    Where the forward pass is not timed apart, ``compute`` stands in: it hides a slow device, but not late data.
    """
    parts = facts.parts
    forward_s = parts["forward"].p50_s
    computed_s = STEP_PER_FORWARD * forward_s if parts["forward"].entries and forward_s else parts["compute"].p50_s
    return (parts["data_wait"].p50_s or 0.0) + (parts["h2d"].p50_s or 0.0) + (computed_s or 0.0)
