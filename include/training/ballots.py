"""What all workers say at each step: their share of the loss, and whether one was told to stop, or to save.

Nobody stands still for it where that can be avoided. One worker on a CPU counts at once. Several workers sum while the
step goes on, and a GPU copies while it computes, so there a ballot is counted one step late, on all workers alike.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import distributed


class Count(NamedTuple):
    """One step's result over all workers.

    Attributes:
        step: The step, from 1.
        rows: Rows of its batch.
        first: Whether it is the first of its epoch.
        loss: Mean loss of the batch.
        stop: Whether a worker was told to stop.
        save: Whether a worker was asked to save soon.
    """

    step: int
    rows: int
    first: bool
    loss: float
    stop: bool
    save: bool = False

    @property
    def finite(self) -> bool:
        """Whether the loss is a number."""
        return math.isfinite(self.loss)


@dataclass(frozen=True, slots=True)
class _Pending:
    count: Count
    values: torch.Tensor
    work: Any
    event: Any


class Ballots:
    """Ballots of the steps, in order.

    Args:
        device: Where losses are.
        world: Number of workers.
        copies: Workers that have the same loss, since they share the rows (tensor parallel).
    """

    def __init__(self, *, device: torch.device, world: int = 1, copies: int = 1) -> None:
        self._device, self._world, self._copies = device, world, copies
        self._pending: deque[_Pending] = deque()
        self._at_once = world == 1 and device.type == "cpu"
        # Of its own: what runs beside the gradients must not get in line with them.
        self._group = distributed.new_group(backend="gloo") if world > 1 and device.type == "cpu" else None

    def cast(
        self, loss: torch.Tensor, *, step: int, rows: int, first: bool, stop: bool, save: bool = False
    ) -> Count | None:
        """Give this worker's share of the loss.

        Returns:
            The oldest count that is due, None where there is none yet.
        """
        if self._at_once:
            return Count(step, rows, first, loss.item(), stop, save)
        count = Count(step, rows, first, math.nan, stop, save)
        self._pending.append(self._send(count, loss))
        return self._take() if len(self._pending) > 1 else None

    def rest(self) -> Iterator[Count]:
        """All counts that are still due; waits for them."""
        while self._pending:
            yield self._take()

    def _send(self, count: Count, loss: torch.Tensor) -> _Pending:
        # One word for both: each worker that was told to stop adds one, each that was asked to save a whole world.
        said = float(count.stop) + self._world * 2 * float(count.save)
        flag = torch.full((), said, dtype=torch.float64, device=self._device)
        values, work, event = torch.stack((loss.double(), flag)), None, None
        if self._world > 1:
            work = distributed.all_reduce(values, group=self._group, async_op=self._device.type == "cpu")
        if self._device.type == "cuda":
            host = torch.empty(2, dtype=torch.float64, pin_memory=True)
            host.copy_(values, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            values = host
        return _Pending(count, values, work, event)

    def _take(self) -> Count:
        pending = self._pending.popleft()
        if pending.work is not None:
            pending.work.wait()
        if pending.event is not None:
            pending.event.synchronize()
        loss, said = pending.values.tolist()
        cast = pending.count
        saves, stops = divmod(said, self._world * 2)
        return Count(cast.step, cast.rows, cast.first, loss / self._copies, stops > 0, saves > 0)
