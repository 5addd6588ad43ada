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
class PeakLine:
    """Device memory at one moment of forward and backward, as a straight line in the micro-batch.

    Parameters, gradients and optimizer state that are held all the time are not in it.

    Attributes:
        fixed_bytes: What does not grow with the micro-batch; may be negative, see ``StepCase.backward_bytes``.
        activations_bytes_per_sample: Saved activations and inputs, per sample.
        loss_bytes_per_sample: Temporaries of the loss, per sample.
        temporary_bytes_per_sample: All else that grows with the micro-batch, per sample.
    """

    fixed_bytes: int
    activations_bytes_per_sample: float
    loss_bytes_per_sample: float
    temporary_bytes_per_sample: float

    def bytes_at(self, micro_batch: int) -> int:
        """Height of the line."""
        growing = self.activations_bytes_per_sample + self.loss_bytes_per_sample + self.temporary_bytes_per_sample
        return self.fixed_bytes + round(growing * micro_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCase:
    """One optimizer step under one combination of settings, per worker, as straight lines in the micro-batch.

    Attributes:
        precision: ``fp32``, ``bf16`` or ``fp16``.
        recompute: Activations computed again in the backward pass: ``off``, ``block`` or ``selective``.
        shard: Workers over which parameters, gradients and optimizer state are spread; 1 for none.
        optimizer: ``adamw``, ``adam`` or ``sgd``.
        parameters_bytes: Weights and buffers that a worker holds all the time.
        gradients_bytes: Gradients that it holds before the update.
        optimizer_bytes: Optimizer state.
        backward_bytes: Further bytes at the peak of forward and backward that do not grow with the micro-batch; counted
            with all gradients held beside them, so negative where the peak comes before the gradients are complete.
        activations_bytes_per_sample: Saved activations at that peak, per sample.
        loss_bytes_per_sample: Temporaries of the loss at that peak, per sample.
        temporary_bytes_per_sample: All else that grows with the micro-batch, per sample.
        update_bytes: Scratch space of the optimizer's update.
        flop_per_sample: Floating-point operations of forward and backward, recomputation included.
        bytes_moved_per_sample: Bytes read and written by operators, forward and backward.
        bytes_moved_per_update: Bytes read and written by the update.
        ops_per_pass: Operators launched by one forward and backward pass.
        ops_per_update: Operators launched by the update.
        bytes_moved_per_pass: Bytes read and written by one pass whatever its micro-batch, such as those of the weights.
        further_peaks: Other moments of the step that are the peak at smaller or larger micro-batches.
        bare_peaks: The moments of the step with the gradients left out: for more than one pass per step, where they are
            held from the start, and for offload.
        offload_peaks: Of a case without shards: the same moments with parameters gathered block by block from the host.
        replica_bytes: Further bytes of each of several replicas: buckets in which gradients are summed.
    """

    precision: str
    recompute: str
    shard: int
    optimizer: str
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    backward_bytes: int
    activations_bytes_per_sample: float
    loss_bytes_per_sample: float
    temporary_bytes_per_sample: float
    update_bytes: int
    flop_per_sample: float
    bytes_moved_per_sample: float
    bytes_moved_per_update: float
    ops_per_pass: int
    ops_per_update: int
    bytes_moved_per_pass: float = 0.0
    further_peaks: tuple[PeakLine, ...] = ()
    bare_peaks: tuple[PeakLine, ...] = ()
    offload_peaks: tuple[PeakLine, ...] = ()
    replica_bytes: int = 0


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
        cases: The table over precision x recompute x shards; empty where only ``memory`` is known.
        family: Name under which corrections are learned: the model's factory.
        sample_bytes: Bytes of one sample as it goes to the device, None where unknown.
        loader_samples_per_core_s: Samples that one core reads and decodes per second, measured; None where not.
        tensor_bytes_per_sample: Bytes that tensor-parallel workers reduce per sample, None where it is not possible.
        checkpoint_bytes: Bytes of one checkpoint, None where unknown.
        tensor_share: Share of the parameters that tensor-parallel workers divide among them.
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
    cases: tuple[StepCase, ...] = ()
    family: str = "unknown"
    sample_bytes: int | None = None
    loader_samples_per_core_s: float | None = None
    tensor_bytes_per_sample: float | None = None
    checkpoint_bytes: int | None = None
    tensor_share: float = 0.0
