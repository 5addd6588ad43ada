"""Arithmetic on the demand's table: memory and work of one worker under a layout. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from include.core.contracts.demand import Demand, MemoryByComponent, PeakLine, StepCase
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What one worker holds all the time, in bytes."""

    parameters: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer


def find_case(demand: Demand, layout: Layout) -> StepCase | None:
    """The table's case for a layout, None where the table has none."""
    return _find(demand, layout, layout.shard)


def _find(demand: Demand, layout: Layout, shard: int) -> StepCase | None:
    wanted = (layout.precision, layout.activation_checkpointing, shard)
    for case in demand.cases:
        if (case.precision, case.recompute, case.shard) == wanted:
            return case
    return None


def memory_of(demand: Demand, layout: Layout) -> MemoryByComponent | None:
    """Peak device memory of one worker by component, without margin; None where the table has no such case.

    The peak is that of forward and backward or that of the update, whichever is higher. Offloaded parameters, gradients
    and optimizer state stay in host memory. Of tensor-parallel workers the parameters are divided and the activations
    are not, so theirs is an upper bound.
    """
    case = find_case(demand, layout)
    if case is None:
        return None
    held = _held(demand, case, layout)
    line = max(_lines(case, layout), key=lambda found: found.bytes_at(layout.micro_batch))
    waiting = (layout.accumulation - 1) * layout.micro_batch * (demand.sample_bytes or 0)
    replicas = case.replica_bytes if layout.replicate > 1 else 0
    saved = round(line.activations_bytes_per_sample * layout.micro_batch) + waiting
    backward = line.bytes_at(layout.micro_batch) + waiting + replicas
    update = 0 if layout.offload else case.update_bytes + replicas + _inputs(demand, layout)
    grown = _update_held(case, held, layout) + update
    if grown > held.total + backward:
        saved, backward = 0, grown - held.total
    passing = backward - saved
    return MemoryByComponent(
        parameters_bytes=held.parameters,
        # A peak that comes before the gradients are complete holds fewer of them.
        gradients_bytes=held.gradients + min(passing, 0),
        optimizer_bytes=held.optimizer,
        activations_bytes=saved,
        temporary_bytes=max(passing, 0),
    )


def _inputs(demand: Demand, layout: Layout) -> int:
    return layout.accumulation * layout.micro_batch * (demand.sample_bytes or 0)


def _held(demand: Demand, case: StepCase, layout: Layout) -> _Held:
    """Over several passes, workers that share the weights hold whole gradients until the last one."""
    gradients = case.gradients_bytes
    if layout.accumulation > 1 and (layout.shard > 1 or layout.offload):
        whole = _find(demand, layout, 1)
        gradients = gradients if whole is None else whole.gradients_bytes
    elif layout.offload:
        gradients = 0
    divided = 1.0 - demand.tensor_share * (1.0 - 1.0 / layout.tensor)
    return _Held(
        parameters=0 if layout.offload else round(case.parameters_bytes * divided),
        gradients=round(gradients * divided),
        optimizer=0 if layout.offload else round(case.optimizer_bytes * divided),
    )


def _update_held(case: StepCase, held: _Held, layout: Layout) -> int:
    """States during the update, when sharded gradients are those of the shard alone."""
    divided = held.parameters / case.parameters_bytes if case.parameters_bytes and not layout.offload else 0.0
    return held.parameters + held.optimizer + round(case.gradients_bytes * divided)


def _lines(case: StepCase, layout: Layout) -> Sequence[PeakLine]:
    main = PeakLine(
        fixed_bytes=case.backward_bytes,
        activations_bytes_per_sample=case.activations_bytes_per_sample,
        loss_bytes_per_sample=case.loss_bytes_per_sample,
        temporary_bytes_per_sample=case.temporary_bytes_per_sample,
    )
    if layout.offload:
        return case.offload_peaks or case.bare_peaks or (main,)
    if layout.accumulation > 1:
        return case.bare_peaks or (main, *case.further_peaks)
    return (main, *case.further_peaks)


def work_of(demand: Demand, layout: Layout) -> StepWork | None:
    """Work of one worker in one optimizer step; None where the table has no such case."""
    case = find_case(demand, layout)
    if case is None:
        return None
    samples = layout.micro_batch * layout.accumulation
    growing = case.bytes_moved_per_sample * samples + case.bytes_moved_per_pass * layout.accumulation
    return StepWork(
        flop=case.flop_per_sample * samples / layout.tensor,
        bytes_moved=growing / layout.tensor + case.bytes_moved_per_update,
        ops=case.ops_per_pass * layout.accumulation + case.ops_per_update,
    )
