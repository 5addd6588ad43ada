"""What is alive on the device after each operator of one forward and backward pass, seen on fake tensors.

Only the profile job imports this module.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch  # noqa: TID253 - imported by the profile job alone
import torch.distributed._tools.fake_collectives  # noqa: TID253 - gives collectives a meaning on fake tensors
from torch._guards import active_fake_mode  # noqa: TID253 - imported by the profile job alone
from torch.distributed.tensor import DTensor  # noqa: TID253 - imported by the profile job alone
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: TID253 - imported by the profile job alone
from torch.utils._pytree import tree_leaves  # noqa: TID253 - imported by the profile job alone

from include.sizing.trace_work import flop_of, size_of, workspace_bytes

ACTIVATIONS, LOSS, TEMPORARY = range(3)
Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One pass, operator by operator. All figures are linear in the micro-batch, so timelines add up as vectors.

    Attributes:
        names: Operators, in order.
        boundary: Number of operators of the forward pass.
        alive: Bytes alive after each operator, shape (operators, 3): activations, loss, temporary; no gradients of
            parameters.
        gradients: Bytes of the parameters' gradients alive after each operator, shape (operators,).
        held_gradients: Bytes of all gradients at the end.
        flop: Floating-point operations.
        bytes_moved: Bytes read and written.
        ops: Operators that launch a kernel.
    """

    names: tuple[str, ...]
    boundary: int
    alive: Rows
    gradients: Rows
    held_gradients: float
    flop: float
    bytes_moved: float
    ops: float


class AllocationMode(TorchDispatchMode):
    """Books the storages that operators make, until they are freed, and counts the work.

    Attributes:
        phase: Into which component new storages are booked.
        names: Operators so far.
        rows: Bytes alive after each of them, by component.
    """

    def __init__(self, *, given: int = 0) -> None:
        super().__init__()
        self.phase = ACTIVATIONS
        self.names: list[str] = []
        self.rows: list[tuple[float, float, float]] = []
        self.flop, self.bytes_moved, self.ops = 0.0, 0.0, 0
        self._alive = [float(given), 0.0, 0.0]
        self._booked: dict[int, list[Any]] = {}
        self._mode = active_fake_mode()

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it takes itself apart, and its local tensors come here
        result = func(*args, **(kwargs or {}))
        # Distributed tensors find out the shape of a result in a fake mode of their own, which allocates nothing.
        if active_fake_mode() is self._mode:
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self._book(leaf)
            self._count(func, args, kwargs, result)
        return result

    def _count(self, func: torch._ops.OpOverload, args: Any, kwargs: Any, result: Any) -> None:  # noqa: ANN401 - of any operator
        saved, loss, passing = self._alive
        self.names.append(str(func))
        self.rows.append((saved, loss, passing + workspace_bytes(func, args, result)))
        if not func.is_view:
            self.ops += 1
            self.bytes_moved += sum(map(size_of, tree_leaves((args, kwargs, result))))
            self.flop += flop_of(func, args, kwargs or {}, result)

    def _book(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if id(storage) in self._booked:
            return
        entry = [storage.size(), self.phase, len(self.rows), None]
        entry[3] = weakref.ref(storage, functools.partial(self._freed, id(storage)))
        self._booked[id(storage)] = entry
        self._alive[self.phase] += entry[0]

    def _freed(self, key: int, _: object) -> None:
        size, kind, _born, _ref = self._booked.pop(key)
        self._alive[kind] -= size

    def resized(self, storage: torch.UntypedStorage) -> None:
        """Take note of a storage that was resized outside of all operators."""
        entry = self._booked.get(id(storage))
        if entry is not None:
            self._alive[entry[1]] += storage.size() - entry[0]
            entry[0] = storage.size()

    def forget(self, tensor: torch.Tensor) -> None:
        """Leave out a storage that was there before, such as that of a parameter, should an operator return it."""
        storage = tensor.untyped_storage()
        reference = weakref.ref(storage, functools.partial(self._freed, id(storage)))
        self._booked[id(storage)] = [0, TEMPORARY, 0, reference]

    def settled(self, tensor: torch.Tensor) -> None:
        """From here on a gradient is complete."""
        entry = self._booked.get(id(tensor.untyped_storage()))
        if entry is not None:
            entry[2] = len(self.rows)

    def gradients(self, tensors: list[torch.Tensor]) -> Iterator[tuple[int, int, int]]:
        """Of each storage of these gradients: where it begins, its component so far, and its bytes."""
        for key in {id(tensor.untyped_storage()) for tensor in tensors} & self._booked.keys():
            size, kind, born, _ref = self._booked[key]
            yield born, kind, size


@contextmanager
def watching_resizes(mode: AllocationMode) -> Iterator[None]:
    """Tell the mode of storages that are resized in place, as sharded parameters are; no operator shows it."""
    before = torch.UntypedStorage.resize_

    @functools.wraps(before)
    def resize_(storage: torch.UntypedStorage, size: int) -> object:
        result = before(storage, size)
        mode.resized(storage)
        return result

    torch.UntypedStorage.resize_ = resize_
    try:
        yield
    finally:
        torch.UntypedStorage.resize_ = before


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This worker's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def record_pass(
    model: torch.nn.Module,
    *,
    batch: tuple[torch.Tensor, torch.Tensor],
    descend: Callable[[Callable[[torch.Tensor], torch.Tensor]], object],
) -> Timeline:
    """Run one forward and backward pass inside the active fake mode and record it.

    Args:
        model: The model on fake tensors; its gradients are empty.
        batch: Inputs and targets, which lie on the device all the time.
        descend: Runs the pass with the function that it is given in place of the model.
    """
    mode = AllocationMode(given=sum(map(size_of, batch)))
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    boundary = 0

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        nonlocal boundary
        outputs: torch.Tensor = model(inputs)
        boundary, mode.phase = len(mode.rows), LOSS
        if outputs.requires_grad:
            outputs.register_hook(lambda _: setattr(mode, "phase", TEMPORARY))
        return outputs

    hooks = [p.register_post_accumulate_grad_hook(lambda p: mode.settled(local(p.grad))) for p in learned]
    for tensor in (*model.parameters(), *model.buffers(), *batch):
        mode.forget(local(tensor))
    with watching_resizes(mode), mode:
        descend(forward)
    for hook in hooks:
        hook.remove()
    gradients = [local(p.grad) for p in learned if p.grad is not None]
    return _timeline(mode, boundary, list(mode.gradients(gradients)))


def _timeline(mode: AllocationMode, boundary: int, gradients: list[tuple[int, int, int]]) -> Timeline:
    alive = np.asarray(mode.rows, dtype=np.float64)
    held = np.zeros(len(alive))
    for born, kind, size in gradients:
        alive[born:, kind] -= size
        held[born:] += size
    return Timeline(
        names=tuple(mode.names),
        boundary=boundary,
        alive=alive,
        gradients=held,
        held_gradients=float(sum(size for _, _, size in gradients)),
        flop=mode.flop,
        bytes_moved=mode.bytes_moved,
        ops=float(mode.ops),
    )
