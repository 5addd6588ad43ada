"""Where the training stands in its data: one number, from which order and batch follow in constant time.

The order of an epoch is a permutation drawn from (seed, epoch) alone, and the position is the count of samples
consumed since the start, so a resume replays nothing and any batch of any epoch can be named without the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from include.core.ids import digest


@dataclass(slots=True, kw_only=True)
class DataOrder:
    """The order of all samples over all epochs.

    The last batch of an epoch is short where the rows do not divide: each epoch sees each row exactly once.

    Attributes:
        rows: Rows of the training split, at least 1.
        batch_size: Samples per optimizer step.
        seed: Seed of the order.
    """

    rows: int
    batch_size: int
    seed: int
    _epoch: int = -1
    _order: torch.Tensor | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps per pass over the data."""
        return math.ceil(self.rows / self.batch_size)

    def locate(self, offset: int) -> tuple[int, int]:
        """Epoch (from 0) and row within its order of a global sample offset."""
        return divmod(offset, self.rows)

    def batch_at(self, offset: int) -> torch.Tensor:
        """Row numbers, shape (batch,), int64, of the batch that starts at a global sample offset."""
        epoch, row = self.locate(offset)
        if self._order is None or epoch != self._epoch:
            # Its own generator: drawing from the global one would make dropout depend on the resume.
            generator = torch.Generator().manual_seed(int(digest(self.seed, epoch, length=15), 16))
            self._order, self._epoch = torch.randperm(self.rows, generator=generator), epoch
        return self._order[row : row + self.batch_size]


def part_of(rows: int, *, rank: int, world: int) -> slice:
    """The contiguous part of a global batch that one rank gets; parts differ by at most one row.

    Args:
        rows: Rows of the global batch.
        rank: The rank, from 0.
        world: Number of ranks.
    """
    return slice(rows * rank // world, rows * (rank + 1) // world)
