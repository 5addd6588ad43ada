"""Memory, FLOPs and bytes of one training step, traced with fake tensors: no GPU, no data, no real arithmetic.

Only the profile job imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # noqa: TID253 - imported by the profile job alone
from torch import nn  # noqa: TID253 - imported by the profile job alone
from torch._subclasses.fake_tensor import (  # noqa: TID253 - imported by the profile job alone
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: TID253 - imported by the profile job alone
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: TID253 - imported by the profile job alone
from torch.utils._pytree import tree_leaves  # noqa: TID253 - imported by the profile job alone
from torch.utils.flop_counter import FlopCounterMode  # noqa: TID253 - imported by the profile job alone

from include.core.contracts.demand import MemoryByComponent
from include.parallel.layout import Execution
from include.parallel.recompute import recompute_activations
from include.parallel.step import forward_backward

# The optimizer's state exists from the second step on, so the peak is the peak of the second step.
TRACED_STEPS = 2
# FlopCounterMode over-counts the backward pass of grouped convolutions about tenfold; the whole step is 3 x forward.
BACKWARD_AND_FORWARD = 3
_GROUPS_ARGUMENT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """One optimizer step of a training.

    Attributes:
        build: Makes a new model; called again for each trace.
        input_shape: Shape of one sample, without the batch dimension.
        classes: Number of classes.
        batch: Samples per optimizer step.
        optimizer: ``adamw`` or ``sgd`` with momentum.
        execution: Micro-batch and precision, as in the training.
    """

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    classes: int
    batch: int
    optimizer: str
    execution: Execution

    def make_optimizer(self, model: nn.Module, *, foreach: bool | None) -> torch.optim.Optimizer:
        """Optimizer of the step; ``foreach`` True is what a GPU uses by default, None leaves it to the device."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=foreach)
        return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=foreach)

    def samples(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Random inputs of shape (batch, *input_shape), float32, and random labels of shape (batch,), int64."""
        return torch.rand(self.batch, *self.input_shape), torch.randint(0, self.classes, (self.batch,))

    def descend(
        self,
        model: Callable[[torch.Tensor], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        batch: tuple[torch.Tensor, ...],
    ) -> None:
        """One whole step: forward, backward, update."""
        forward_backward(model, inputs=batch[0], labels=batch[1], execution=self.execution)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Work of one step (forward, backward, optimizer).

    Attributes:
        flop: Floating-point operations of matrix products and convolutions.
        bytes_moved: Bytes read and written by operators that touch memory.
        ops: Operators that launch a kernel.
        grouped_convolutions: Whether the model has convolutions with more than one group.
    """

    flop: float
    bytes_moved: int
    ops: int
    grouped_convolutions: bool


class TrafficMode(TorchDispatchMode):
    """Counts operators and the bytes of their tensors; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_moved = 0
        self.ops = 0
        self.grouped_convolutions = False

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default and args[_GROUPS_ARGUMENT] > 1:
            self.grouped_convolutions = True
        if not func.is_view:
            self.bytes_moved += sum(map(_size, tree_leaves((args, kwargs, result))))
            self.ops += 1
        return result


def trace_memory(shape: StepShape) -> MemoryByComponent:
    """Peak memory of a training step by component, as the caching allocator of a device would see it.

    Kernel workspace is not seen; the planner's margin adds for it.
    """
    with FakeTensorMode():
        model = _fake_model(shape)
        optimizer = shape.make_optimizer(model, foreach=True)
        batch = shape.samples()
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *batch)

        def forward(inputs: torch.Tensor) -> torch.Tensor:
            tracker.reset_mod_stats()  # its statistics by module, not used here, allow one forward pass only
            return model(inputs)

        with tracker:
            for _ in range(TRACED_STEPS):
                shape.descend(forward, optimizer, batch)
        peak = tracker.get_tracker_snapshot("peak")
        states = sum(_size(leaf) for leaf in tree_leaves(list(optimizer.state.values())))
    return _by_component(next(iter(peak.values())), states)


def _fake_model(shape: StepShape) -> nn.Module:
    """The real model with its tensors replaced by fake ones; tied weights stay tied.

    It is built outside the mode, since a factory may call ``.to()``, which fake parameters do not survive.
    """
    with unset_fake_temporarily():
        model = shape.build().train()
    fakes: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            if id(tensor) not in fakes:
                fake = torch.empty(tensor.shape, dtype=tensor.dtype)
                learned = isinstance(tensor, nn.Parameter)
                fakes[id(tensor)] = nn.Parameter(fake, requires_grad=tensor.requires_grad) if learned else fake
            setattr(module, name, fakes[id(tensor)])
    recompute_activations(model, shape.execution.recompute)
    return model


def _size(leaf: object) -> int:
    return leaf.numel() * leaf.element_size() if isinstance(leaf, torch.Tensor) else 0


def _by_component(snapshot: dict[Any, int], states_bytes: int) -> MemoryByComponent:
    """Components at the peak; what the tracker books as state beyond the real states is the update's scratch space."""
    named = {str(getattr(kind, "value", kind)): size for kind, size in snapshot.items()}
    parameters = named["Parameter"] + named["Buffer"]
    held = {
        "gradients": named["Gradient"],
        "optimizer": min(named["Optstate"], states_bytes),
        "activations": named["Activation"],
    }
    return MemoryByComponent(
        parameters_bytes=parameters,
        gradients_bytes=held["gradients"],
        optimizer_bytes=held["optimizer"],
        activations_bytes=held["activations"],
        temporary_bytes=named["Total"] - parameters - sum(held.values()),
    )


def count_step(shape: StepShape) -> StepCounts:
    """FLOPs, bytes and operators of one step.

    FLOPs are counted, except with grouped convolutions: there 3 x forward, since the count of their backward is wrong.
    """
    with FakeTensorMode():
        model = _fake_model(shape)
        optimizer = shape.make_optimizer(model, foreach=True)
        batch = shape.samples()
        with FlopCounterMode(display=False) as counted:
            shape.descend(model, optimizer, batch)  # also makes the optimizer's state
        with FlopCounterMode(display=False) as forward, torch.no_grad():
            model(batch[0])
        with TrafficMode() as traffic:
            shape.descend(model, optimizer, batch)
    grouped = traffic.grouped_convolutions
    flop = forward.get_total_flops() * BACKWARD_AND_FORWARD if grouped else counted.get_total_flops()
    return StepCounts(flop=float(flop), bytes_moved=traffic.bytes_moved, ops=traffic.ops, grouped_convolutions=grouped)
