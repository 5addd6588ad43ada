"""The copy that a save is made from while the training goes on: the only time for which the loop stands still.

The buffers are reused, so only the first save pays for their memory. A frozen parameter that has not changed since a
commit holds it is not copied again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.distributed.tensor import DTensor

from include.training.tensor_digest import content_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """One state, copied.

    Attributes:
        described: The live tensors, for their types, shapes and placements alone; their data goes on changing.
        copies: Copies on the CPU of what this worker holds of each, without those in ``unchanged``.
        frozen: Names of parameters that need no gradient.
        learned: Names of the other parameters.
        unchanged: Those of them that are as they were at the last commit.
    """

    described: Mapping[str, torch.Tensor]
    copies: Mapping[str, torch.Tensor]
    frozen: frozenset[str]
    learned: frozenset[str]
    unchanged: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """By what a frozen parameter is known again: torch's count of changes to it, and all of its content.

    The count alone misses changes through ``.data``, such as those of a codebook that learns by itself.
    """

    address: int
    version: int
    content: bytes

    @classmethod
    def of(cls, value: torch.Tensor) -> _Mark:
        return cls(address=value.data_ptr(), version=value._version, content=content_digest(value.detach()))  # noqa: SLF001 - torch has no public name for it


@dataclass(slots=True, kw_only=True)
class Stager:
    """Copies states into buffers that it keeps."""

    _buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    _marks: dict[str, _Mark] = field(default_factory=dict)
    _settled: dict[str, _Mark] = field(default_factory=dict)

    def stage(self, tensors: Mapping[str, torch.Tensor]) -> Staged:
        """Copy a state; returns when the copy is complete.

        The copies are overwritten by the next call.

        Args:
            tensors: Tensors and DTensors by name. Parameters that need no gradient are recognised as frozen.
        """
        local = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in tensors.items()}
        parameters = {name: value for name, value in tensors.items() if isinstance(value, torch.nn.Parameter)}
        frozen = frozenset(name for name, value in parameters.items() if not value.requires_grad)
        self._marks = {name: _Mark.of(local[name]) for name in frozen}
        unchanged = frozenset(name for name, mark in self._marks.items() if mark == self._settled.get(name))
        with torch.no_grad():
            copies = {name: self._copy(name, value) for name, value in local.items() if name not in unchanged}
        if any(value.is_cuda for value in local.values()):
            torch.cuda.current_stream().synchronize()
        learned = frozenset(parameters.keys() - frozen)
        return Staged(described=tensors, copies=copies, frozen=frozen, learned=learned, unchanged=unchanged)

    def committed(self) -> None:
        """The last state is in a commit: its frozen parameters need no copy while they stay as they are."""
        self._settled = self._marks
        for name in self._settled:
            self._buffers.pop(name, None)

    def _copy(self, name: str, value: torch.Tensor) -> torch.Tensor:
        buffer = self._buffers.get(name)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[name] = buffer
        return buffer.copy_(value, non_blocking=value.is_cuda)
