"""What a job needs, independent of what can be rented."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryByComponent:
    """Peak device memory in bytes, split by what holds it at the peak.

    Attributes:
        parameters_bytes: Weights and buffers.
        gradients_bytes: Gradients.
        optimizer_bytes: Optimizer state.
        activations_bytes: Saved activations for the micro-batch.
        temporary_bytes: Everything else alive at the peak.
    """

    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int
    temporary_bytes: int

    @property
    def total_bytes(self) -> int:
        """Sum of all components."""
        return (
            self.parameters_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.temporary_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the training of a workload needs.

    Attributes:
        memory: Peak device memory for the micro-batch, by component.
        micro_batch: Samples per step and worker that the memory was estimated for.
        parameters: Number of trainable parameters.
        flop_per_sample: Floating-point operations of forward and backward for one sample.
        bytes_moved_per_sample: Bytes read and written by all operators for one sample (forward and backward).
        ops_per_step: Operator launches per optimizer step.
        steps: Optimizer steps of the whole training.
        host_ram_bytes: Host memory for data and process, estimated.
        vcpus: Virtual CPUs that the loader and the loop can use.
        disk_bytes: Local disk for data cache and checkpoints.
        cpu_s_per_step: CPU seconds per step measured on this machine, None where not measured.
        method: How the figures came about, for people.
    """

    memory: MemoryByComponent
    micro_batch: int
    parameters: int
    flop_per_sample: float
    bytes_moved_per_sample: float
    ops_per_step: int
    steps: int
    host_ram_bytes: int
    vcpus: int
    disk_bytes: int
    cpu_s_per_step: float | None
    method: str
