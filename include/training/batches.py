"""Batches as the loop takes them: endless, from any global sample offset, one part per rank.

A source names no epoch and keeps no position: the global sample offset is the whole position, so the same call after a
resume, or with another number of ranks, goes on with the same global batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from include.core.errors import DataError
from include.training.data_position import DataOrder, part_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Encoded rows of one split on one device: inputs (rows, *input_shape) float32, labels (rows,) int64."""

    inputs: torch.Tensor
    labels: torch.Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise DataError(
                "inputs and labels do not belong together",
                found=f"{len(self.inputs)} inputs, {len(self.labels)} labels",
                allowed="one label per input",
            )


class Batch(NamedTuple):
    """One rank's part of the global batch of one optimizer step.

    Attributes:
        inputs: This rank's inputs, shape (part, *input_shape).
        targets: This rank's targets, shape (part,). The part may be empty where a short batch has fewer rows than
            there are ranks.
        rows_global: Rows of the whole global batch, over all ranks: what the position grows by.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    rows_global: int


def moved_to(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on the device; a GPU copies from pinned memory while the host goes on."""
    if device.type == "cuda" and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class BatchSource(Protocol):
    """Where the loop gets its batches.

    Attributes:
        rows: Rows of one epoch.
    """

    rows: int

    def steps_per_epoch(self, batch_size: int) -> int:
        """Optimizer steps per pass over the data; the last batch of a pass may be short."""
        ...

    def batches(self, *, offset: int, batch_size: int, rank: int, world: int) -> Iterator[Batch]:
        """Batches without end, over epochs, each of which sees each row exactly once.

        The order follows from the seed and the epoch alone and draws from no global generator; opening at an offset
        replays nothing.

        Args:
            offset: Global sample offset: samples of all ranks consumed since the start.
            batch_size: Rows of one global batch.
            rank: This rank, from 0.
            world: Number of ranks. Each gets a contiguous part of each global batch; parts differ by at most one row.
        """
        ...


class MemorySource:
    """Batches of rows that are in memory.

    Args:
        examples: The rows; batches are on their device.
        seed: Seed of the order.
    """

    def __init__(self, examples: Examples, *, seed: int) -> None:
        self.rows = len(examples.labels)
        self._examples = examples
        self._seed = seed

    @property
    def labels(self) -> torch.Tensor:
        """Labels of all rows."""
        return self._examples.labels

    def _order(self, batch_size: int) -> DataOrder:
        return DataOrder(rows=self.rows, batch_size=batch_size, seed=self._seed)

    def steps_per_epoch(self, batch_size: int) -> int:
        """Optimizer steps per pass over the data."""
        return self._order(batch_size).steps_per_epoch

    def batches(self, *, offset: int, batch_size: int, rank: int, world: int) -> Iterator[Batch]:
        """See `BatchSource`."""
        order = self._order(batch_size)
        while True:
            rows = order.batch_at(offset)
            mine = rows[part_of(len(rows), rank=rank, world=world)].to(self._examples.inputs.device)
            yield Batch(inputs=self._examples.inputs[mine], targets=self._examples.labels[mine], rows_global=len(rows))
            offset += len(rows)
