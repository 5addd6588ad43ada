"""Predictions for one step alone: a demand whose table has one case."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import distributed
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter

from include.core.contracts.demand import Demand, MemoryByComponent, StepCase
from include.core.contracts.plan import Layout
from include.sizing.demand import layout_of
from include.sizing.demand_table import StepWork, memory_of, work_of
from include.sizing.trace import StepShape
from include.sizing.trace_cases import trace_case

NOTHING = MemoryByComponent(
    parameters_bytes=0, gradients_bytes=0, optimizer_bytes=0, activations_bytes=0, temporary_bytes=0
)


def demand_of(*cases: StepCase, **fields: Any) -> Demand:
    values: dict[str, Any] = {
        "memory": NOTHING, "micro_batch": 1, "parameters": 0, "flop_per_sample": 0.0, "bytes_moved_per_sample": 0.0,
        "ops_per_step": 0, "steps": 1, "host_ram_bytes": 0, "vcpus": 1, "disk_bytes": 0, "cpu_s_per_step": None,
        "method": "one case",
    }  # fmt: skip
    return Demand(**{**values, **fields}, cases=cases)


@contextmanager
def as_on_gloo() -> Iterator[None]:
    """Let a traced reduce-scatter hold a copy of its input, as gloo does.

    Gloo has no reduce-scatter: torch clones the input on the calling thread, reduces the clone everywhere and keeps one
    part of it (``ProcessGroupGloo::reduce_scatter_tensor_coalesced``). No backend of a GPU has such a clone, so it
    belongs to a comparison with processes on gloo and not to a demand.
    """
    scatter = DefaultReduceScatter.__call__

    def copying(self: Any, output_tensor: Any, input_tensor: Any, *args: Any, **kwargs: Any) -> distributed.Work:
        clone = input_tensor.clone()
        work = scatter(self, output_tensor, input_tensor, *args, **kwargs)
        del clone
        return work

    DefaultReduceScatter.__call__ = copying
    try:
        yield
    finally:
        DefaultReduceScatter.__call__ = scatter


def traced_memory(shape: StepShape, *, shard: int = 1) -> MemoryByComponent:
    """Predicted peak of the shape's own step."""
    layout = layout_of(shape)
    if shard > 1:
        layout = Layout(
            shard=shard, precision=layout.precision, micro_batch=layout.micro_batch,
            activation_checkpointing=layout.activation_checkpointing,
        )  # fmt: skip
    sample = math.prod(shape.input_shape) * 4 + 8 * math.prod(shape.target_shape or (1,))
    found = memory_of(demand_of(trace_case(shape, shard=shard), sample_bytes=sample), layout)
    assert found is not None
    return found


def traced_work(shape: StepShape) -> StepWork:
    """Counted work of the shape's own step."""
    found = work_of(demand_of(trace_case(shape)), layout_of(shape))
    assert found is not None
    return found
