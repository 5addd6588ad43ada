"""From traces and measurements to the demand of a training.

Only the profile job imports this module.
"""

from __future__ import annotations

import math
import resource
from dataclasses import dataclass, replace

from include.config.training_section import TrainingSection
from include.core.contracts.demand import Demand, MemoryByComponent
from include.core.contracts.plan import Layout
from include.sizing.demand_data import DataSize, total_steps
from include.sizing.demand_table import memory_of, work_of
from include.sizing.extrapolate import Repeats
from include.sizing.measure import StepCost, cpu_s_per_step
from include.sizing.trace import StepShape
from include.sizing.trace_cases import Table, sharded_bytes, trace_table
from include.sizing.trace_tensor import TensorParallel, trace_tensor_parallel

# Checkpoints that may lie on the disk at once: the last one, the one before, and one being written.
CHECKPOINTS_ON_DISK = 3
# A step of more FLOPs would take a core a minute or more, and one warm and one measured step there have to be.
MOST_MEASURED_FLOP = 1e12
# Weights are kept in fp32 whatever the precision of the step.
_WEIGHT_BYTES = 4
_NOTHING = MemoryByComponent(
    parameters_bytes=0, gradients_bytes=0, optimizer_bytes=0, activations_bytes=0, temporary_bytes=0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the demand has besides the step itself.

    Attributes:
        family: Name under which corrections are learned.
        threads: Threads of one worker on a CPU.
        most_memory_bytes: Memory that real steps may take on this machine.
        loader_samples_per_core_s: Measured on the prepared data, None where not.
        repeats: How to trace two shallow models in place of a deep one, None for the whole model.
    """

    family: str
    threads: int
    most_memory_bytes: int
    loader_samples_per_core_s: float | None = None
    repeats: Repeats | None = None


def estimate_demand(
    shape: StepShape, *, training: TrainingSection, data: DataSize, surroundings: Surroundings
) -> Demand:
    """Trace a step under each setting without data or GPU, run a few real ones, and put the figures together.

    Args:
        shape: One step of the training.
        training: The workload's training section.
        data: Size of the prepared data.
        surroundings: What the demand has besides the step itself.
    """
    table = trace_table(shape, repeats=surroundings.repeats)
    layout = layout_of(shape)
    traced = _of_table(table, trace_tensor_parallel_deep(shape, surroundings.repeats), layout)
    work, memory = work_of(traced, layout), memory_of(traced, layout)
    assert work is not None
    assert memory is not None
    measurable = work.flop <= MOST_MEASURED_FLOP and memory.total_bytes < surroundings.most_memory_bytes / 2
    cost = cpu_s_per_step(shape, threads=surroundings.threads) if measurable else None
    checkpoint = memory.parameters_bytes + memory.optimizer_bytes
    return replace(
        traced,
        memory=memory,
        flop_per_sample=work.flop / shape.batch,
        bytes_moved_per_sample=work.bytes_moved / shape.batch,
        ops_per_step=work.ops,
        steps=total_steps(rows=data.rows, training=training),
        host_ram_bytes=_peak_rss_bytes() + data.encoded_bytes,
        vcpus=surroundings.threads,
        disk_bytes=data.stored_bytes + CHECKPOINTS_ON_DISK * checkpoint,
        cpu_s_per_step=None if cost is None else cost.cpu_s,
        method=_method(table, surroundings, cost),
        family=surroundings.family,
        sample_bytes=data.sample_bytes,
        loader_samples_per_core_s=surroundings.loader_samples_per_core_s,
        checkpoint_bytes=checkpoint,
    )


def layout_of(shape: StepShape) -> Layout:
    """The shape's own execution on one worker."""
    execution = shape.execution
    return Layout(
        precision=execution.precision,
        micro_batch=execution.micro_batch,
        accumulation=math.ceil(shape.batch / execution.micro_batch),
        activation_checkpointing=execution.recompute,
    )


def _of_table(table: Table, parallel: TensorParallel | None, layout: Layout) -> Demand:
    """The demand as far as traces alone know it."""
    states = table.states
    weights = sharded_bytes((*states.learned, *states.frozen), 1)
    return Demand(
        memory=_NOTHING,
        micro_batch=layout.micro_batch,
        parameters=sharded_bytes(states.learned, 1) // _WEIGHT_BYTES,
        flop_per_sample=0.0,
        bytes_moved_per_sample=0.0,
        ops_per_step=0,
        steps=0,
        host_ram_bytes=0,
        vcpus=1,
        disk_bytes=0,
        cpu_s_per_step=None,
        method="",
        cases=table.cases,
        tensor_bytes_per_sample=None if parallel is None else parallel.bytes_per_sample,
        tensor_share=0.0 if parallel is None else parallel.divided_bytes / weights,
    )


def trace_tensor_parallel_deep(shape: StepShape, repeats: Repeats | None) -> TensorParallel | None:
    """What tensor-parallel workers exchange and divide, of a deep model by two shallow ones."""
    if repeats is None:
        return trace_tensor_parallel(shape)
    shallow, deeper = (trace_tensor_parallel(replace(shape, build=repeats.builder(depth))) for depth in repeats.traced)
    if shallow is None or deeper is None:
        return None
    return TensorParallel(
        bytes_per_sample=repeats.onward(shallow.bytes_per_sample, deeper.bytes_per_sample),
        divided_bytes=repeats.onward(shallow.divided_bytes, deeper.divided_bytes),
    )


def _peak_rss_bytes() -> int:
    """Peak resident memory of this process, which has imported torch and run the model's real steps."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _method(table: Table, surroundings: Surroundings, cost: StepCost | None) -> str:
    repeats = surroundings.repeats
    depth = "" if repeats is None else f" of depths {repeats.traced[0]} and {repeats.traced[1]}, then by block,"
    sharded = "traced for 2 workers" if table.shards_traced else "bounded by whole weights and gradients"
    steps = (
        f"measured: CPU seconds per step, median of {cost.steps} real steps on random data after {cost.warm_steps} "
        f"warm ones, {surroundings.threads} thread(s)"
        if cost is not None
        else "CPU seconds per step not measured: a step is too large for this machine"
    )
    return (
        f"estimated: device memory, FLOPs counted, bytes and operators by tracing steps{depth} with fake tensors at "
        f"two micro-batches, shards {sharded}, host RAM = peak resident memory of the profile + encoded rows; {steps}"
    )
