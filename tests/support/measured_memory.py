"""Peak memory of real training steps, from the allocator's own events in torch.profiler."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from include.core.contracts.plan import Layout
from include.parallel.mesh import Place, take_place
from include.parallel.recompute import recompute_activations
from include.parallel.spread import spread_model
from include.parallel.step import forward_backward
from include.sizing.trace import StepShape

STEPS = 2  # the optimizer's state exists from the second one on


def measured_peak(shape: StepShape) -> int:
    """Highest sum of the allocations of two real steps of one worker, model and optimizer included."""

    def run() -> None:
        model = shape.build().train()
        recompute_activations(model, shape.execution.recompute)
        steps(model, shape, rows=shape.batch)

    return peak_of(run)


def measured_sharded_peak(shape: StepShape, *, world: int) -> int:
    """The same of one worker among others of the running group, the model spread over them."""
    execution = shape.execution
    layout = Layout(
        shard=world, precision=execution.precision, micro_batch=execution.micro_batch,
        activation_checkpointing=execution.recompute,
    )  # fmt: skip
    place: Place = take_place(layout, device_type="cpu", world=world)

    def run() -> None:
        spread = spread_model(shape.build().train(), layout, place)
        steps(spread.model, shape, rows=execution.micro_batch, syncing=spread.syncing)

    return peak_of(run)


def steps(model: torch.nn.Module, shape: StepShape, *, rows: int, syncing: Callable | None = None) -> None:
    optimizer = shape.make_optimizer(model, foreach=True)
    inputs, targets = shape.samples(rows)
    for _ in range(STEPS):
        forward_backward(
            model, inputs=inputs, labels=targets, execution=shape.execution, loss_sum=shape.loss_sum, syncing=syncing
        )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def peak_of(run: Callable[[], object]) -> int:
    """Highest total of the allocator, in its own events, while the function runs; above what was there before.

    The total covers memory that another thread gives back, such as that of a collective; such a thread leaves no event.
    """
    gc.collect()  # what an earlier run left is not freed in the middle of this one
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    totals = []
    waiting = list(profiler.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag == _EventType.Allocation:
            found = event.extra_fields
            totals.append((event.start_time_ns, found.total_allocated, found.alloc_size))
    totals.sort()
    _, first, size = totals[0]
    return max(total for _, total, _ in totals) - (first - size)
