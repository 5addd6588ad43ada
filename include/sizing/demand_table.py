"""Arithmetic on the demand's table: memory and work of one worker under a layout. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from include.core.contracts.demand import Demand, MemoryByComponent, StepCase
from include.core.contracts.plan import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """Work of one worker in one optimizer step.

    Attributes:
        flop: Floating-point operations.
        bytes_moved: Bytes read and written by operators.
        ops: Operators launched.
    """

    flop: float
    bytes_moved: float
    ops: int


def find_case(demand: Demand, layout: Layout) -> StepCase | None:
    """The table's case for a layout, None where the table has none."""
    for case in demand.cases:
        if (case.precision, case.recompute, case.shard) == (
            layout.precision,
            layout.activation_checkpointing,
            layout.shard,
        ):
            return case
    return None


def memory_of(demand: Demand, layout: Layout) -> MemoryByComponent | None:
    """Peak device memory of one worker by component, without margin; None where the table has no such case.

    The peak is that of forward and backward or that of the update, whichever is higher. Offloaded parameters, gradients
    and optimizer state stay in host memory.
    """
    case = find_case(demand, layout)
    if case is None:
        return None
    held = (0, 0, 0) if layout.offload else (case.parameters_bytes, case.gradients_bytes, case.optimizer_bytes)
    saved = round(case.activations_bytes_per_sample * layout.micro_batch)
    passing = round((case.loss_bytes_per_sample + case.temporary_bytes_per_sample) * layout.micro_batch)
    backward = case.backward_bytes + saved + passing
    update = 0 if layout.offload else case.update_bytes
    if update > backward:
        saved, passing, backward = 0, update, update
    return MemoryByComponent(
        parameters_bytes=held[0],
        gradients_bytes=held[1],
        optimizer_bytes=held[2],
        activations_bytes=saved,
        temporary_bytes=backward - saved,
    )


def work_of(demand: Demand, layout: Layout) -> StepWork | None:
    """Work of one worker in one optimizer step; None where the table has no such case."""
    case = find_case(demand, layout)
    if case is None:
        return None
    samples = layout.micro_batch * layout.accumulation
    return StepWork(
        flop=case.flop_per_sample * samples / layout.tensor,
        bytes_moved=case.bytes_moved_per_sample * samples / layout.tensor + case.bytes_moved_per_update,
        ops=case.ops_per_pass * layout.accumulation + case.ops_per_update,
    )
