"""One training step traced with fake tensors: no GPU, no data, no real arithmetic.

Only the profile job imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch  # noqa: TID253 - imported by the profile job alone
from torch import nn  # noqa: TID253 - imported by the profile job alone
from torch._subclasses.fake_tensor import (  # noqa: TID253 - imported by the profile job alone
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_leaves  # noqa: TID253 - imported by the profile job alone

from include.parallel.layout import Execution
from include.parallel.recompute import recompute_activations
from include.parallel.step import LossSum, cross_entropy_sum, forward_backward
from include.sizing.trace_timeline import AllocationMode, Timeline, record_pass
from include.sizing.trace_work import size_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """One optimizer step of a training.

    Attributes:
        build: Makes a new model; called again for each trace.
        input_shape: Shape of one sample, without the batch dimension.
        classes: Number of classes.
        batch: Samples per optimizer step.
        optimizer: ``adamw``, ``adam`` or ``sgd`` with momentum.
        execution: Micro-batch and precision, as in the training.
        loss_sum: The summed loss of outputs and targets.
        target_shape: Shape of one target, without the batch dimension.
    """

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    classes: int
    batch: int
    optimizer: str
    execution: Execution
    loss_sum: LossSum = cross_entropy_sum
    target_shape: tuple[int, ...] = ()

    def make_optimizer(self, model: nn.Module, *, foreach: bool | None) -> torch.optim.Optimizer:
        """Optimizer of the step; ``foreach`` True is what a GPU uses by default, None leaves it to the device."""
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if self.optimizer == "sgd":
            return torch.optim.SGD(learned, lr=1e-3, momentum=0.9, foreach=foreach)
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
        return kind(learned, lr=1e-3, foreach=foreach)

    def samples(self, rows: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Random inputs of shape (rows, *input_shape), float32, and random targets of shape (rows, *target_shape)."""
        rows = self.batch if rows is None else rows
        return torch.rand(rows, *self.input_shape), torch.randint(0, self.classes, (rows, *self.target_shape))

    def descend(
        self,
        model: Callable[[torch.Tensor], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        batch: tuple[torch.Tensor, ...],
    ) -> None:
        """One whole step: forward, backward, update."""
        forward_backward(model, inputs=batch[0], labels=batch[1], execution=self.execution, loss_sum=self.loss_sum)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """What one worker holds all the time, and the update of it.

    Attributes:
        buffers_bytes: Buffers, such as the statistics of batch norms.
        optimizer_bytes: Optimizer state.
        update_bytes: Scratch space of the update.
        bytes_moved: Bytes read and written by the update.
        ops: Operators launched by the update.
        learned: Rows and bytes per row of each parameter that is trained: rows are what shards divide.
        frozen: The same of those that are not.
    """

    buffers_bytes: float
    optimizer_bytes: float
    update_bytes: float
    bytes_moved: float
    ops: float
    learned: tuple[tuple[int, int], ...]
    frozen: tuple[tuple[int, int], ...]


@contextmanager
def faking() -> Iterator[None]:
    """Tensors made here have shapes and no memory; constants that a model holds are taken as they are."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def fake_model(build: Callable[[], nn.Module]) -> nn.Module:
    """The real model with its tensors replaced by fake ones; tied weights stay tied.

    It is built outside the mode, since a factory may call ``.to()``, which fake parameters do not survive: without
    memory where the factory allows it, in real memory where it looks at the values of its tensors.
    """
    with unset_fake_temporarily():
        model = _without_memory(build).train()
    fakes: dict[int, torch.Tensor] = {}
    for module in model.modules():
        named = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False), *_constants(module))
        for name, tensor in named:
            if id(tensor) not in fakes:
                fake = torch.empty(tensor.shape, dtype=tensor.dtype)
                learned = isinstance(tensor, nn.Parameter)
                fakes[id(tensor)] = nn.Parameter(fake, requires_grad=tensor.requires_grad) if learned else fake
            setattr(module, name, fakes[id(tensor)])
    return model


def _without_memory(build: Callable[[], nn.Module]) -> nn.Module:
    try:
        with torch.device("meta"):
            return build()
    except Exception:  # noqa: BLE001 - whatever a factory stumbles over here; with memory it tells its real mistake
        return build()


def _constants(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, value) for name, value in vars(module).items() if isinstance(value, torch.Tensor)]


def traced_execution(execution: Execution, *, micro_batch: int) -> Execution:
    """The execution as it is traced: fp16 as bf16, which is as large and which a CPU has."""
    precision = "bf16" if execution.precision == "fp16" else execution.precision
    return replace(execution, micro_batch=micro_batch, precision=precision, data_parallel=1)


def trace_pass(shape: StepShape, *, micro_batch: int) -> Timeline:
    """Record forward and backward of one micro-batch on one worker."""
    execution = traced_execution(shape.execution, micro_batch=micro_batch)
    with faking():
        model = fake_model(shape.build)
        recompute_activations(model, execution.recompute)
        inputs, targets = shape.samples(micro_batch)

        def descend(forward: Callable[[torch.Tensor], torch.Tensor]) -> object:
            return forward_backward(
                forward, inputs=inputs, labels=targets, execution=execution, loss_sum=shape.loss_sum
            )

        return record_pass(model, batch=(inputs, targets), descend=descend)


def trace_states(shape: StepShape) -> States:
    """Model states, and the scratch space and traffic of their update; the same whatever the precision."""
    with faking():
        model = fake_model(shape.build)
        optimizer = shape.make_optimizer(model, foreach=True)
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in learned:
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()  # makes the state
        mode = AllocationMode()
        with mode:
            optimizer.step()
        states = [leaf for leaf in tree_leaves(list(optimizer.state.values())) if isinstance(leaf, torch.Tensor)]
        return States(
            buffers_bytes=sum(map(size_of, model.buffers())),
            optimizer_bytes=sum(map(size_of, states)),
            update_bytes=max((sum(row) for row in mode.rows), default=0.0),
            bytes_moved=mode.bytes_moved,
            ops=mode.ops,
            learned=tuple(map(_rows, learned)),
            frozen=tuple(_rows(parameter) for parameter in model.parameters() if not parameter.requires_grad),
        )


def _rows(parameter: nn.Parameter) -> tuple[int, int]:
    rows = parameter.shape[0] if parameter.dim() else 1
    return rows, size_of(parameter) // max(rows, 1)
