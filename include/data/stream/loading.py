"""Fill batches from shards: in this process, or in each of the worker processes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from include.core.contracts.dataset import DatasetManifest, Shard
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.stream.cache import HeldFile, ShardCache
from include.data.stream.order import BLOCK_SHARDS, BlockOrder, Ints
from include.data.stream.rows import RowFormat, ShardRows, open_rows, row_format

_log = logging.getLogger("plimsoll.stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What is streamed and how: all that a worker process needs to know.

    Attributes:
        store: Root URL of the store.
        manifest: The dataset.
        split: The split to stream.
        seed: Seed of the order.
        cache: Folder of the shard cache.
        cache_bytes: Its budget.
        block_shards: Shards whose rows are mixed with each other.
        skip_bad: Whether rows of shards that cannot be read are replaced by rows of a neighbour.
    """

    store: str
    manifest: DatasetManifest
    split: str
    seed: int
    cache: Path
    cache_bytes: int
    block_shards: int = BLOCK_SHARDS
    skip_bad: bool = False

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Shards of the split that have rows, in the order of the manifest."""
        return tuple(s for s in self.manifest.shards if s.split == self.split and s.rows > 0)

    def order(self) -> BlockOrder:
        """The order of the rows."""
        rows = [shard.rows for shard in self.shards]
        return BlockOrder(rows, seed=self.seed, block_shards=self.block_shards)

    @property
    def format(self) -> RowFormat:
        """How a row stands in a batch."""
        return row_format(self.manifest, self.shards)

    @property
    def bytes_of_a_block(self) -> int:
        """Bytes that the shards of one block take at most."""
        return sum(sorted(s.size_bytes for s in self.shards)[-self.block_shards :])


@dataclass(slots=True, kw_only=True)
class BatchLoader:
    """Reads any part of any epoch; keeps the shards of the present block open.

    Attributes:
        plan: What is streamed.
        skipped: Key of each shard that was passed over, and why.
    """

    plan: StreamPlan
    skipped: dict[str, str] = field(default_factory=dict)
    _open: dict[int, ShardRows] = field(default_factory=dict)
    _held: dict[int, HeldFile] = field(default_factory=dict)
    _store: ObjectStore = field(init=False)
    _cache: ShardCache = field(init=False)
    _order: BlockOrder = field(init=False)
    _shards: tuple[Shard, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Open nothing yet."""
        self._store = ObjectStore(self.plan.store)
        self._cache = ShardCache(self.plan.cache, budget_bytes=self.plan.cache_bytes)
        self._order = self.plan.order()
        self._shards = self.plan.shards

    def load(self, *, epoch: int, begin: int, end: int, inputs: npt.NDArray[Any], targets: Ints) -> None:
        """Fill a batch with the rows at positions ``begin`` to ``end`` (exclusive) of an epoch.

        Args:
            epoch: The epoch, from 0.
            begin: Position of the first row.
            end: Position after the last row.
            inputs: Array of shape [end - begin, *row shape], filled.
            targets: int64 [end - begin], filled with class indices.

        Raises:
            DataError: A shard is missing or damaged, and shards are not to be skipped, or none of its block is left.
        """
        if begin == end:
            return
        blocks = self._blocks(epoch, begin, end)
        self._let_go({shard for block in blocks for shard in block})
        of_shard, of_row = self._order.rows_at(epoch, begin, end)
        by_shard = np.argsort(of_shard, kind="stable")
        cuts = np.flatnonzero(np.diff(of_shard[by_shard])) + 1
        for places in np.split(by_shard, cuts):
            number = int(of_shard[places[0]])
            opened = self._rows_instead(number, blocks) if self.plan.skip_bad else self._rows_of(number)
            opened.put(of_row[places] % opened.rows, inputs=inputs, targets=targets, places=places)

    def _blocks(self, epoch: int, begin: int, end: int) -> list[list[int]]:
        """Shards of the blocks that a batch lies in: mostly one."""
        first, last = self._order.block_at(epoch, begin), self._order.block_at(epoch, end - 1)
        return [self._order.block_shards(epoch, block).tolist() for block in range(first, last + 1)]

    def _let_go(self, needed: set[int]) -> None:
        """Close what is not needed any more: the reading never goes back."""
        for number in self._open.keys() - needed:
            del self._open[number]
            self._held.pop(number).close()

    def _rows_of(self, number: int) -> ShardRows:
        if number not in self._open:
            shard = self._shards[number]
            held = self._cache.open(self._store, shard)
            try:
                self._open[number] = open_rows(self._store, shard, held, self.plan.manifest)
            except BaseException:
                held.close()
                raise
            self._held[number] = held
        return self._open[number]

    def _rows_instead(self, number: int, blocks: list[list[int]]) -> ShardRows:
        """The shard's rows, or those of the next good shard of its block: the same whatever was read before."""
        block = next(shards for shards in blocks if number in shards)
        at = block.index(number)
        failure: DataError | None = None
        for candidate in block[at:] + block[:at]:
            key = self._shards[candidate].key
            if key in self.skipped:
                continue
            try:
                return self._rows_of(candidate)
            except DataError as error:
                failure = error
                self.skipped[key] = str(error)
                _log.warning("shard %s is skipped, rows of its block stand in for its own: %s", key, error)
        raise DataError(
            "no shard of a block can be read",
            where=self._store.uri(self._shards[number].key),
            found=str(failure or self.skipped[self._shards[number].key]),
            todo="restore the shards, or prepare the dataset again",
        )

    def close(self) -> None:
        """Let go of all shards."""
        self._open.clear()
        while self._held:
            self._held.popitem()[1].close()
