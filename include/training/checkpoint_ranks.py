"""The workers that save and load together, with a process group of their own for the background.

The group is a gloo one: collectives of a save run beside those of the training, and its data lies on the CPU.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This worker among all.

    Attributes:
        rank: Its number.
        world: Number of workers.
        local_rank: Its number on its machine, whose workers share the cache.
        local_world: Number of workers on its machine.
        group: The process group, None for a single worker.
    """

    rank: int
    world: int
    local_rank: int
    local_world: int
    group: Any

    @classmethod
    def join(cls) -> Ranks:
        """Take part. All workers call this, at the same point."""
        if not distributed.is_initialized() or distributed.get_world_size() == 1:
            return cls(rank=0, world=1, local_rank=0, local_world=1, group=None)
        rank, world = distributed.get_rank(), distributed.get_world_size()
        return cls(
            rank=rank,
            world=world,
            # torchrun says which workers share a machine; without it all of them do.
            local_rank=int(os.environ.get("LOCAL_RANK", rank)),
            local_world=int(os.environ.get("LOCAL_WORLD_SIZE", world)),
            group=distributed.new_group(backend="gloo", timeout=_TIMEOUT),
        )

    def from_first(self, value: list[str]) -> list[str]:
        """The first worker's value, on all workers."""
        if self.group is None:
            return value
        # As bytes of text: torch's collectives for objects would pickle it.
        data = bytearray("\n".join(value).encode())
        size = torch.tensor([len(data)])
        distributed.broadcast(size, src=0, group=self.group)
        text = torch.frombuffer(data, dtype=torch.uint8) if self.rank == 0 and data else torch.empty(0)
        if self.rank != 0 or not data:
            text = torch.empty(int(size), dtype=torch.uint8)
        distributed.broadcast(text, src=0, group=self.group)
        return bytes(text.numpy()).decode().split("\n") if int(size) else []

    def any_true(self, value: bool) -> bool:  # noqa: FBT001 - a question with one answer
        """Whether it is true on any worker."""
        if self.group is None:
            return value
        flag = torch.tensor([int(value)])
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX, group=self.group)
        return bool(flag.item())
