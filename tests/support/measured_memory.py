"""Peak memory of real training steps, from the allocator's own events in torch.profiler.

Measured are real tensors of real steps on a CPU; nothing here knows the tracker that predicts. The profiler books what
its own thread allocates and frees. A tensor whose last holder is another thread would stay in the total for good, and a
gloo thread is the last holder of the copies that it reduced whenever it lets go of them after the training thread does.
The comms of sharded steps here therefore keep each collective until the threads of gloo sleep again, so that the
training thread is always the last. Without that, the peaks of one configuration came out up to six copies of a block's
gradients apart, and always too high.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch._C._profiler import _EventType
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather, DefaultReduceScatter
from torch.profiler import ProfilerActivity, profile

from include.core.contracts.plan import Layout
from include.parallel.mesh import Place, take_place
from include.parallel.recompute import recompute_activations
from include.parallel.spread import spread_model
from include.parallel.step import forward_backward
from include.sizing.trace import StepShape

STEPS = 2  # the optimizer's state exists from the second one on
SEEN_ASLEEP = 3
SETTLE_S = 30


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
        for module in spread.model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_reduce_scatter(SettledReduceScatter())
                module.set_custom_all_gather(SettledAllGather())
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


class SettledReduceScatter(DefaultReduceScatter):
    """Reduce-scatter whose copies the calling thread is the last to hold."""

    def __call__(self, *args: Any, async_op: bool = False, **kwargs: Any) -> distributed.Work | None:
        return settled(super().__call__(*args, async_op=True, **kwargs), keep=async_op)


class SettledAllGather(DefaultAllGather):
    """All-gather whose copies the calling thread is the last to hold."""

    def __call__(self, *args: Any, async_op: bool = False, **kwargs: Any) -> distributed.Work | None:
        return settled(super().__call__(*args, async_op=True, **kwargs), keep=async_op)


def settled(work: distributed.Work | None, *, keep: bool) -> distributed.Work | None:
    """Wait for a collective, and then until the other threads of this process have let go of it and sleep."""
    assert work is not None
    work.wait()
    wait_for_threads()
    return work if keep else None


def wait_for_threads() -> None:
    """Wait until all other threads of this process sleep; one that waits for a busy CPU counts as awake.

    Raises:
        TimeoutError: Another thread never sleeps.
    """
    until, asleep = time.monotonic() + SETTLE_S, 0
    while asleep < SEEN_ASLEEP:
        if time.monotonic() > until:
            raise TimeoutError(f"threads of this process are still busy after {SETTLE_S} s")
        time.sleep(0.0005)
        asleep = asleep + 1 if all(state in "SI" for state in _states()) else 0


def _states() -> list[str]:
    """States of the other threads, by the letters of proc(5)."""
    own = str(threading.get_native_id())
    folders = [task for task in Path("/proc/self/task").iterdir() if task.name != own]
    return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in folders]


def peak_of(run: Callable[[], object]) -> int:
    """Highest total of the allocator, in its own events, while the function runs; above what was there before.

    Raises:
        AssertionError: Another thread freed memory, which leaves no event: the total is too high from there on.
    """
    gc.collect()  # what an earlier run left is not freed in the middle of this one
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = allocations(profiler)
    alive: set[int] = set()
    for _, _, size, address in events:
        if size > 0:
            assert address not in alive, "memory was freed by a thread that leaves no events"
            alive.add(address)
        else:
            alive.discard(address)
    _, first, size, _ = events[0]
    return max(total for _, total, _, _ in events) - (first - size)


def allocations(profiler: profile) -> list[tuple[int, int, int, int]]:
    """Events of the allocator in order: time, total after it, bytes (negative where freed), address."""
    found = []
    waiting = list(profiler.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            found.append((event.start_time_ns, fields.total_allocated, fields.alloc_size, fields.ptr))
    return sorted(found, key=lambda event: event[0])
