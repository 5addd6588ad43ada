"""The table of a demand: what one worker needs under each precision, recomputation and number of shards.

Only the profile job imports this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from include.core.contracts.demand import StepCase
from include.core.contracts.plan import Recompute
from include.sizing.extrapolate import Repeats, extrapolated_moments, extrapolated_states
from include.sizing.trace import States, StepShape, trace_pass, trace_states
from include.sizing.trace_lines import Moments, fit_lines, peaks
from include.sizing.trace_sharded import trace_sharded_pass
from include.sizing.trace_timeline import TEMPORARY

Traced = TypeVar("Traced")
PRECISIONS = ("fp32", "bf16", "fp16")
RECOMPUTES: tuple[Recompute, ...] = ("off", "block", "selective")
SHARDS = (1, 2, 4, 8, 16, 32, 64)
# Two micro-batches make a line; a batch of one may take other operators.
TRACED_BATCHES = (2, 4)
# Sharded traces are taken at this number; of others the gradients alone differ, and what is gathered does not.
TRACED_SHARD = 2
# Below, whole weights are no burden for any worker, and a bound does instead of a trace.
SHARDS_TRACED_FROM_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The cases with what does not depend on them.

    Attributes:
        cases: One per precision, recomputation and number of shards.
        states: Model states of one worker without shards.
        shards_traced: Whether sharded cases come from traces; else they are bounds.
    """

    cases: tuple[StepCase, ...]
    states: States
    shards_traced: bool


def trace_table(shape: StepShape, *, repeats: Repeats | None = None, shards: Sequence[int] = SHARDS) -> Table:
    """Trace a step at two micro-batches under each setting.

    Args:
        shape: The step; its execution is replaced by each setting in turn.
        repeats: How to trace two shallow models in place of a deep one, None for the whole model.
        shards: Numbers of workers over which weights may be spread.
    """
    states = _deep(trace_states, shape, repeats, extrapolated_states)
    traced = sharded_bytes(states.learned, 1) >= SHARDS_TRACED_FROM_BYTES and max(shards) > 1
    cases: list[StepCase] = []
    for precision in ("fp32", "bf16"):
        for recompute in RECOMPUTES:
            execution = replace(shape.execution, precision=precision, recompute=recompute)
            cases += _cases(replace(shape, execution=execution), states, repeats, shards, traced=traced)
    # A CPU traces fp16 as bf16, which is as large. It trains on whole weights alone.
    halves = [replace(case, precision="fp16") for case in cases if case.precision == "bf16" and case.shard == 1]
    return Table(cases=(*cases, *halves), states=states, shards_traced=traced)


def trace_case(shape: StepShape, *, shard: int = 1, repeats: Repeats | None = None) -> StepCase:
    """The one case of the shape's own execution, traced whatever the size of the model."""
    states = _deep(trace_states, shape, repeats, extrapolated_states)
    return _cases(shape, states, repeats, (shard,), traced=shard > 1)[0]


def _cases(
    shape: StepShape, states: States, repeats: Repeats | None, shards: Sequence[int], *, traced: bool
) -> list[StepCase]:
    whole = _deep(_moments, shape, repeats, extrapolated_moments)
    spread = _bound(whole, states)
    if traced:
        deep = None if repeats is None else repeats.sharded()
        spread = _deep(_sharded_moments, shape, deep, extrapolated_moments)
    found = []
    for shard in shards:
        moments = whole if shard == 1 else _at_shard(spread, states, shard)
        case = _case(moments, states, shape, shard=shard)
        if shard == 1:
            offloaded = peaks(spread, gradients=None, less=0.0) if max(shards) > 1 else ()
            case = replace(case, offload_peaks=offloaded, replica_bytes=case.gradients_bytes)
        found.append(case)
    return found


def _deep(
    trace: Callable[[StepShape], Traced],
    shape: StepShape,
    repeats: Repeats | None,
    extrapolate: Callable[[Traced, Traced, Repeats], Traced],
) -> Traced:
    """Trace the whole model, or two shallow ones and go on from them."""
    if repeats is None:
        return trace(shape)
    shallow, deeper = (trace(replace(shape, build=repeats.builder(depth))) for depth in repeats.traced)
    return extrapolate(shallow, deeper, repeats)


def _moments(shape: StepShape) -> Moments:
    smaller, larger = (trace_pass(shape, micro_batch=batch) for batch in TRACED_BATCHES)
    return fit_lines(smaller, larger, batches=TRACED_BATCHES)


def _sharded_moments(shape: StepShape) -> Moments:
    smaller, larger = (trace_sharded_pass(shape, micro_batch=batch, shard=TRACED_SHARD) for batch in TRACED_BATCHES)
    return fit_lines(smaller, larger, batches=TRACED_BATCHES)


def _bound(whole: Moments, states: States) -> Moments:
    """Shards without a trace: at each moment the whole weights twice and the whole gradient once, beside the rest."""
    fixed = whole.fixed.copy()
    fixed[:, TEMPORARY] += 2 * sharded_bytes((*states.learned, *states.frozen), 1) + sharded_bytes(states.learned, 1)
    return replace(whole, fixed=fixed, gradients=whole.gradients * 0.0 + sharded_bytes(states.learned, TRACED_SHARD))


def _at_shard(spread: Moments, states: States, shard: int) -> Moments:
    here, traced = sharded_bytes(states.learned, shard), sharded_bytes(states.learned, TRACED_SHARD)
    return replace(spread, gradients=spread.gradients * (here / max(traced, 1)))


def sharded_bytes(rows: Sequence[tuple[int, int]], shard: int) -> int:
    """Bytes of the first worker's rows: each parameter is divided along its first dimension and padded."""
    return sum(math.ceil(count / shard) * size for count, size in rows)


def _case(moments: Moments, states: States, shape: StepShape, *, shard: int) -> StepCase:
    gradients, whole = sharded_bytes(states.learned, shard), sharded_bytes(states.learned, 1)
    share = gradients / max(whole, 1)
    lines = peaks(moments, gradients=moments.gradients, less=gradients)
    main = max(lines, key=lambda line: line.bytes_at(shape.execution.micro_batch))
    return StepCase(
        precision=shape.execution.precision,
        recompute=shape.execution.recompute,
        shard=shard,
        optimizer=shape.optimizer,
        parameters_bytes=round(states.buffers_bytes) + gradients + sharded_bytes(states.frozen, shard),
        gradients_bytes=gradients,
        optimizer_bytes=round(states.optimizer_bytes * share),
        backward_bytes=main.fixed_bytes,
        activations_bytes_per_sample=main.activations_bytes_per_sample,
        loss_bytes_per_sample=main.loss_bytes_per_sample,
        temporary_bytes_per_sample=main.temporary_bytes_per_sample,
        update_bytes=round(states.update_bytes * share),
        flop_per_sample=moments.per_sample.flop,
        bytes_moved_per_sample=moments.per_sample.bytes_moved,
        bytes_moved_per_update=states.bytes_moved * share,
        ops_per_pass=round(moments.per_pass.ops),
        ops_per_update=round(states.ops),
        bytes_moved_per_pass=moments.per_pass.bytes_moved,
        further_peaks=tuple(line for line in lines if line is not main),
        bare_peaks=peaks(moments, gradients=None, less=0.0),
    )
