"""Peak memory of real training steps, from the allocator's own events in torch.profiler."""

from __future__ import annotations

from collections.abc import Callable

import torch
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
    """Highest running sum of allocated minus freed bytes while the function runs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    now = highest = 0
    for event in events:
        now += event.nbytes()
        highest = max(highest, now)
    return highest
