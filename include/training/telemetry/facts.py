"""``telemetry.json``: what one rank of one attempt has measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from include.training.telemetry.series import SeriesFacts
from include.training.telemetry.step_facts import StepFacts

# Names of the series. Shares are 0..1, rates are per second.
GPU_BUSY = "gpu_busy"  # share of time with any kernel running: says nothing about how much of the device it fills
GPU_MEMORY_USED = "gpu_memory_used_bytes"
GPU_MEMORY_BUSY = "gpu_memory_busy"  # share of time with the device's memory read or written
SM_ACTIVE = "sm_active"
TENSOR_ACTIVE = "tensor_active"
DRAM_ACTIVE = "dram_active"
PCIE_TO_DEVICE = "pcie_to_device_bytes_per_s"
PCIE_FROM_DEVICE = "pcie_from_device_bytes_per_s"
GPU_POWER = "gpu_power_w"
HOST_CPU = "host_cpu"
WORKER_CPU = "worker_cpu"  # of the worker and its loader processes, as a share of all cores of the host
HOST_IO_WAIT = "host_io_wait"
HOST_MEMORY_AVAILABLE = "host_memory_available_bytes"
PROCESS_RSS = "process_rss_bytes"
NETWORK_RECEIVED = "network_received_bytes_per_s"
NETWORK_SENT = "network_sent_bytes_per_s"
DISK_READ = "disk_read_bytes_per_s"
DISK_WRITTEN = "disk_written_bytes_per_s"
LOADER_QUEUE = "loader_queue"  # batches that are ready and not yet taken


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What the rank runs on and how it was told to run. None where unknown.

    Attributes:
        device: Name of the device, ``cpu`` without one.
        device_memory_bytes: Memory of the device.
        device_peak_bytes: Largest amount that the training's own tensors took.
        allocation_retries: How often the allocator had to give back its cache to find memory.
        pcie_bytes_per_s: What the link between host and device can carry in one direction.
        host_memory_bytes: Memory that the job may use on its host.
        host_cores: Cores that the job may use.
        checkpoint_every_s: Seconds between two checkpoints, measured.
    """

    device: str = "cpu"
    device_memory_bytes: int | None = None
    device_peak_bytes: int | None = None
    allocation_retries: int | None = None
    pcie_bytes_per_s: float | None = None
    host_memory_bytes: int | None = None
    host_cores: int | None = None
    checkpoint_every_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTelemetry:
    """One rank of one attempt.

    Attributes:
        rank: The rank.
        world: Number of ranks.
        began_at: When its first step began, seconds since 1970 by its own clock; None where unknown.
        steps: Where the time of the steps went, None where the loop has no timer.
        series: What was measured beside, by name; a series that nobody could measure is absent.
        sources: Which readers answered, and why the others did not.
        machine: What it ran on.
    """

    rank: int = 0
    world: int = 1
    began_at: float | None = None
    steps: StepFacts | None = None
    series: dict[str, SeriesFacts] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    machine: MachineFacts = MachineFacts()
