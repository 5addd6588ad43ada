"""Forward and backward of a model whose weights are spread over workers, traced without those workers.

The model is divided as the training divides it (FSDP2), on a process group that pretends to have all ranks.

Only the profile job imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch  # noqa: TID253 - imported by the profile job alone
from torch import distributed  # noqa: TID253 - imported by the profile job alone
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: TID253 - imported by the profile job alone

from include.core.contracts.plan import Layout
from include.parallel.mesh import Place, take_place
from include.parallel.spread import spread_model
from include.parallel.step import forward_backward
from include.sizing.trace import StepShape, fake_model, faking, traced_execution
from include.sizing.trace_timeline import Timeline, record_pass


@contextmanager
def pretended_workers(world: int) -> Iterator[Callable[[Layout], Place]]:
    """A process group of so many ranks, of which only this one exists; collectives do nothing."""
    distributed.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        yield lambda layout: take_place(layout, device_type="cpu", world=world)
    finally:
        distributed.destroy_process_group()


def trace_sharded_pass(shape: StepShape, *, micro_batch: int, shard: int) -> Timeline:
    """Record forward and backward of one micro-batch on the first of ``shard`` workers."""
    execution = traced_execution(shape.execution, micro_batch=micro_batch)
    layout = Layout(
        shard=shard,
        precision=execution.precision,
        micro_batch=micro_batch,
        activation_checkpointing=execution.recompute,
    )
    # The mesh is made of real numbers, so it is made before tensors are faked.
    with pretended_workers(shard) as place_of:
        place = place_of(layout)
        with faking():
            spread = spread_model(fake_model(shape.build), layout, place)
            inputs, targets = shape.samples(micro_batch)

            def descend(forward: Callable[[torch.Tensor], torch.Tensor]) -> object:
                return forward_backward(
                    forward,
                    inputs=inputs,
                    labels=targets,
                    execution=execution,
                    loss_sum=shape.loss_sum,
                    syncing=spread.syncing,
                )

            return record_pass(spread.model, batch=(inputs, targets), descend=descend)
