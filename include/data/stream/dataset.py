"""A split as an endless stream of batches, from any global sample offset on."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from include.core.errors import DataError, StoreError
from include.data.stream.loading import BatchLoader, StreamPlan
from include.data.stream.order import Ints
from include.data.stream.prefetch import Prefetcher
from include.data.stream.slots import Slots
from include.data.stream.workers import Workers


@dataclass(frozen=True, slots=True)
class StreamedBatch:
    """One rank's part of a global batch; its arrays are valid until the next batch is taken.

    Attributes:
        inputs: Rows in the stream's format, shape [part, *row shape].
        targets: Class indices, int64 [part].
        rows_global: Rows of the whole global batch.
    """

    inputs: npt.NDArray[Any]
    targets: Ints
    rows_global: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """One rank's part of a global batch, as positions in an epoch."""

    epoch: int
    begin: int
    end: int
    rows_global: int


class StreamDataset:
    """Batches of a split that need not fit into memory.

    The position is the global sample offset alone. Whatever the number of workers and ranks, the same offset, batch
    size and seed give the same global batches.

    Args:
        plan: What is streamed.
        workers: Processes that read and decode; 0 does it in this one.

    Attributes:
        rows: Rows of an epoch.
        skipped: Key of each shard that was passed over so far, and why; empty unless the plan allows it.

    Raises:
        DataError: The split has no rows, or the cache cannot hold one block.
    """

    def __init__(self, plan: StreamPlan, *, workers: int = 0) -> None:
        if not plan.shards:
            raise DataError("a split has no rows", where=f"datasets/{plan.manifest.fingerprint}", found=plan.split)
        needed = plan.bytes_of_a_block
        if needed > plan.cache_bytes and not plan.store.startswith("file://"):
            raise DataError(
                "the shard cache cannot hold the shards that are read at once",
                where="PLIMSOLL_SHARD_CACHE_BYTES",
                found=f"{plan.cache_bytes} bytes",
                allowed=f"at least {needed} for {plan.block_shards} shards of this dataset",
            )
        self.plan = plan
        self.workers = workers
        self.skipped: dict[str, str] = {}
        self._order = plan.order()
        self._idle: Workers | None = None
        self._busy: Workers | None = None
        self.rows = self._order.rows

    def batches(self, *, offset: int, batch_size: int, rank: int = 0, world: int = 1) -> Iterator[StreamedBatch]:
        """Batches without end; the processes of an iterator that was closed wait for the next one.

        Args:
            offset: Global sample offset: samples of all ranks consumed since the start.
            batch_size: Rows of one global batch; the last batch of an epoch may be shorter.
            rank: This rank, from 0.
            world: Number of ranks. Each gets a contiguous part of each global batch; parts differ by at most one row.

        Raises:
            DataError: A shard is missing or damaged; the message names it.
        """
        pieces = self._pieces(offset, batch_size=batch_size, rank=rank, world=world)
        prefetcher = Prefetcher(self.plan, self._order)
        most = -(-batch_size // world)
        try:
            yield from (
                self._inline(pieces, prefetcher, most) if not self.workers else self._ahead(pieces, prefetcher, most)
            )
        finally:
            prefetcher.close()

    def queue_depth(self) -> int | None:
        """Batches that the processes have filled and nobody has taken yet; None while there are no processes."""
        busy = self._busy
        return None if busy is None else busy.ready

    def _pieces(self, offset: int, *, batch_size: int, rank: int, world: int) -> Iterator[_Piece]:
        while True:
            epoch, row = divmod(offset, self.rows)
            count = min(batch_size, self.rows - row)
            yield _Piece(epoch, row + count * rank // world, row + count * (rank + 1) // world, count)
            offset += count

    def _inline(self, pieces: Iterator[_Piece], prefetcher: Prefetcher, most: int) -> Iterator[StreamedBatch]:
        loader = BatchLoader(plan=self.plan, skipped=self.skipped)
        slots = Slots(self.plan.format, rows=most, count=1)
        slots.attach(None)
        try:
            for piece in pieces:
                prefetcher.advance(epoch=piece.epoch, row=min(piece.begin, self.rows - 1))
                inputs, targets = slots.view(0, piece.end - piece.begin)
                loader.load(epoch=piece.epoch, begin=piece.begin, end=piece.end, inputs=inputs, targets=targets)
                yield StreamedBatch(inputs, targets, piece.rows_global)
        finally:
            loader.close()

    def _ahead(self, pieces: Iterator[_Piece], prefetcher: Prefetcher, most: int) -> Iterator[StreamedBatch]:
        ordered: list[_Piece] = []
        workers = self._busy = self._take_workers(most)
        try:
            while True:
                while workers.waiting < workers.capacity:
                    piece = next(pieces)
                    prefetcher.advance(epoch=piece.epoch, row=min(piece.begin, self.rows - 1))
                    workers.order(epoch=piece.epoch, begin=piece.begin, end=piece.end)
                    ordered.append(piece)
                inputs, targets = workers.take()
                self.skipped.update(workers.skipped)
                yield StreamedBatch(inputs, targets, ordered.pop(0).rows_global)
        finally:
            self._give_back(workers)

    def _take_workers(self, most: int) -> Workers:
        workers, self._idle = self._idle, None
        if workers is not None and workers.rows >= most:
            return workers
        if workers is not None:
            workers.close()
        workers = Workers(self.plan, count=self.workers, rows=most)
        # Also when the program ends in the middle of an epoch.
        weakref.finalize(self, workers.close)
        return workers

    def _give_back(self, workers: Workers) -> None:
        self._busy = None
        if self._idle is not None:
            workers.close()
            return
        try:
            workers.forget()
        except StoreError:
            workers.close()
        else:
            self._idle = workers

    def close(self) -> None:
        """End the processes that wait for the next iterator."""
        if self._idle is not None:
            self._idle.close()
            self._idle = None
