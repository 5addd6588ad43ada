"""From traces and measurements to the demand of a training.

Only the profile job imports this module.
"""

from __future__ import annotations

import math
import resource
from dataclasses import dataclass

from include.config.training_section import TrainingSection
from include.core.contracts.dataset import DatasetManifest
from include.core.contracts.demand import Demand, MemoryByComponent
from include.sizing.measure import MEASURED_STEPS, WARM_STEPS, cpu_s_per_step
from include.sizing.trace import StepCounts, StepShape, count_step, trace_memory

_FLOAT32_BYTES = 4
_INT64_BYTES = 8
# Checkpoints that may lie on the disk at once: the last one, the one before, and one being written.
CHECKPOINTS_ON_DISK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSize:
    """What the data takes.

    Attributes:
        rows: Rows of the training split.
        encoded_bytes: All rows of training and validation as tensors in memory.
        stored_bytes: All shards on disk.
    """

    rows: int
    encoded_bytes: int
    stored_bytes: int


def data_size(manifest: DatasetManifest) -> DataSize:
    """Rows and bytes of a prepared dataset."""
    rows = {split: sum(s.rows for s in manifest.shards if s.split == split) for split in ("train", "validation")}
    row_bytes = math.prod(manifest.input_shape) * _FLOAT32_BYTES + _INT64_BYTES
    return DataSize(
        rows=rows["train"],
        encoded_bytes=sum(rows.values()) * row_bytes,
        stored_bytes=sum(shard.size_bytes for shard in manifest.shards),
    )


def total_steps(*, rows: int, training: TrainingSection) -> int:
    """Optimizer steps of the whole training; the last batch of an epoch may be short."""
    return training.total_steps(math.ceil(rows / training.batch_size))


def estimate_demand(
    shape: StepShape, *, training: TrainingSection, data: DataSize, threads: int, parameters: int
) -> Demand:
    """Trace a step without data or GPU, run a few real ones, and put the figures together.

    Args:
        shape: One step of the training.
        training: The workload's training section.
        data: Size of the prepared data.
        threads: Threads of one worker on a CPU.
        parameters: Trainable parameters of the model.
    """
    memory, counts = trace_memory(shape), count_step(shape)
    cpu_s = cpu_s_per_step(shape, threads=threads)
    return Demand(
        memory=memory,
        micro_batch=shape.execution.micro_batch,
        parameters=parameters,
        flop_per_sample=counts.flop / shape.batch,
        bytes_moved_per_sample=counts.bytes_moved / shape.batch,
        ops_per_step=counts.ops,
        steps=total_steps(rows=data.rows, training=training),
        host_ram_bytes=_peak_rss_bytes() + data.encoded_bytes,
        vcpus=threads,
        disk_bytes=data.stored_bytes + CHECKPOINTS_ON_DISK * _checkpoint_bytes(memory),
        cpu_s_per_step=cpu_s,
        method=_method(counts, threads),
    )


def _peak_rss_bytes() -> int:
    """Peak resident memory of this process, which has imported torch and run the model's real steps."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _checkpoint_bytes(memory: MemoryByComponent) -> int:
    return memory.parameters_bytes + memory.optimizer_bytes


def _method(counts: StepCounts, threads: int) -> str:
    flop = "3 x forward (grouped convolutions)" if counts.grouped_convolutions else "counted"
    return (
        "estimated: device memory, bytes and operators by tracing one step with fake tensors (workspace of kernels not "
        f"seen), FLOPs {flop}, host RAM = peak resident memory of the profile + encoded rows; "
        f"measured: CPU seconds per step, median of {MEASURED_STEPS} real steps on random data after {WARM_STEPS} "
        f"warm ones, {threads} thread(s)"
    )
