"""The order of a streamed epoch: shards first, then rows within blocks of shards.

Rows that lie together in a shard cannot be spread over the whole epoch without having the whole dataset at hand. So the
shards of an epoch are put into a random order, cut into blocks of a few shards, and the rows of each block are mixed: a
batch holds rows of all the block's shards, and only one block has to be on the local disk at a time. Sources whose
shards are sorted by class should be shuffled once when they are written, or read in larger blocks.

Both orders follow from (seed, epoch) alone, by hashing: no generator, so no library can change them in a new version.
Which rows stand at an offset is found by bisection, whatever came before.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from include.core.ids import digest
from include.data.split import mix

Ints = npt.NDArray[np.int64]
BLOCK_SHARDS = 4
# Neighbouring batches of several workers touch the end of one block and the start of the next.
_BLOCKS_KEPT = 3


def shuffled(count: int, *key: object) -> Ints:
    """A permutation of ``range(count)`` that follows from the key alone."""
    start = np.uint64(int(digest(*key, length=16), 16))
    ranks = mix(mix(np.arange(count, dtype=np.uint64)) ^ start)
    return np.argsort(ranks, kind="stable").astype(np.int64)


class BlockOrder:
    """Which row of which shard stands where in each epoch.

    Args:
        shard_rows: Rows of each shard, all at least 1.
        seed: Seed of the order.
        block_shards: Shards whose rows are mixed with each other, at least 1.
    """

    def __init__(self, shard_rows: list[int], *, seed: int, block_shards: int = BLOCK_SHARDS) -> None:
        self._shard_rows = np.asarray(shard_rows, dtype=np.int64)
        self._seed = seed
        self._block_shards = block_shards
        self.rows = int(self._shard_rows.sum())
        self.blocks = -(-len(shard_rows) // block_shards)
        # Per instance: a cache on the class would keep every order alive.
        self._epoch = lru_cache(maxsize=2)(self._make_epoch)
        self._block = lru_cache(maxsize=_BLOCKS_KEPT)(self._make_block)

    def _make_epoch(self, epoch: int) -> tuple[Ints, Ints]:
        """Shards in the epoch's order, and the position in the epoch of each block's first row, with the end."""
        shards = shuffled(len(self._shard_rows), self._seed, epoch, "shards")
        ends = np.cumsum(self._shard_rows[shards])
        starts = np.concatenate(([0], ends[self._block_shards - 1 :: self._block_shards]))
        return shards, starts if starts[-1] == self.rows else np.append(starts, self.rows)

    def _make_block(self, epoch: int, block: int) -> tuple[Ints, Ints]:
        """Shard and row within it of each row of a block, mixed."""
        shards = self.block_shards(epoch, block)
        sizes = self._shard_rows[shards]
        rows = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        mixed = shuffled(len(rows), self._seed, epoch, "rows", block)
        return np.repeat(shards, sizes)[mixed], rows[mixed]

    def block_at(self, epoch: int, row: int) -> int:
        """Number of the block, from 0, that a position in an epoch lies in."""
        return int(np.searchsorted(self._epoch(epoch)[1], row, side="right")) - 1

    def block_shards(self, epoch: int, block: int) -> Ints:
        """Shards of a block, in the epoch's order."""
        first = block * self._block_shards
        return self._epoch(epoch)[0][first : first + self._block_shards]

    def rows_at(self, epoch: int, begin: int, end: int) -> tuple[Ints, Ints]:
        """Shard, and row within it, of the positions ``begin`` to ``end`` (exclusive) of an epoch."""
        starts = self._epoch(epoch)[1]
        shards, rows = [], []
        while begin < end:
            block = self.block_at(epoch, begin)
            stop = min(end, int(starts[block + 1]))
            part = slice(begin - int(starts[block]), stop - int(starts[block]))
            of_shard, of_row = self._block(epoch, block)
            shards.append(of_shard[part])
            rows.append(of_row[part])
            begin = stop
        if not shards:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(shards), np.concatenate(rows)
