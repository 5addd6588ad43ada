"""Predictions for one step alone: a demand whose table has one case."""

from __future__ import annotations

import math
from typing import Any

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
