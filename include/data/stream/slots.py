"""Places for batches in memory that several processes share."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from include.data.stream.order import Ints
from include.data.stream.rows import RowFormat

_ALIGNMENT = 64


def shared_file(size: int) -> int:
    """Descriptor of a nameless file of a given size that lives in memory and ends with its last user.

    Not the shared memory under ``/dev/shm``, of which containers have 64 MiB unless told otherwise.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("plimsoll-batches")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


class Slots:
    """Equal places for batches, side by side in one file.

    Args:
        row: Format of a row.
        rows: Most rows of a batch.
        count: Number of places.
    """

    def __init__(self, row: RowFormat, *, rows: int, count: int) -> None:
        self._row = row
        self._rows = rows
        self._size = -(-rows * row.row_bytes // _ALIGNMENT) * _ALIGNMENT
        self.total_bytes = max(1, count) * max(_ALIGNMENT, self._size)
        self._memory: mmap.mmap | bytearray | None = None

    def attach(self, descriptor: int | None) -> None:
        """Use a shared file, or private memory when there is none."""
        self._memory = bytearray(self.total_bytes) if descriptor is None else mmap.mmap(descriptor, self.total_bytes)

    def view(self, slot: int, rows: int) -> tuple[npt.NDArray[Any], Ints]:
        """Inputs [rows, *row shape] and class indices [rows] of a place."""
        assert self._memory is not None
        start = slot * self._size
        targets: Ints = np.frombuffer(self._memory, np.int64, rows, start)
        values = rows * int(np.prod(self._row.shape))
        inputs = np.frombuffer(self._memory, self._row.dtype, values, start + self._rows * 8)
        return inputs.reshape(rows, *self._row.shape), targets
