"""Fetch the shards of the next blocks in the background, while the present one is read."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from include.core.store import ObjectStore
from include.data.stream.cache import ShardCache
from include.data.stream.loading import StreamPlan
from include.data.stream.order import BlockOrder

_log = logging.getLogger("plimsoll.stream")
# One connection seldom fills a network; digests are computed outside Python's lock.
_THREADS = 4
_BLOCKS_AHEAD = 2


class Prefetcher:
    """Keeps the shard cache a little ahead of the reading.

    Args:
        plan: What is streamed.
        order: Its order.
    """

    def __init__(self, plan: StreamPlan, order: BlockOrder) -> None:
        self._store = ObjectStore(plan.store)
        self._cache = ShardCache(plan.cache, budget_bytes=plan.cache_bytes)
        self._shards = plan.shards
        self._order = order
        # What is fetched too early would push out what is read now.
        self._ahead = max(0, min(_BLOCKS_AHEAD, plan.cache_bytes // max(1, plan.bytes_of_a_block) - 1))
        self._asked: tuple[int, int] | None = None
        self._threads = None if plan.store.startswith("file://") else ThreadPoolExecutor(_THREADS, "shards")

    def advance(self, *, epoch: int, row: int) -> None:
        """Say where the reading stands; cheap when it is still in the same block."""
        if self._threads is None:
            return
        block = epoch * self._order.blocks + self._order.block_at(epoch, row)
        first, last = block, block + self._ahead
        if self._asked is not None and self._asked[0] <= block:
            first = max(first, self._asked[1] + 1)
        self._asked = (block, last)
        for number in range(first, last + 1):
            for shard in self._order.block_shards(*divmod(number, self._order.blocks)):
                self._threads.submit(self._fetch, int(shard))

    def _fetch(self, number: int) -> None:
        try:
            self._cache.fetch(self._store, self._shards[number])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not told from here
            # The reader meets the same failure, and tells it at the right place.
            _log.info("shard %s could not be fetched ahead: %s", self._shards[number].key, error)

    def close(self) -> None:
        """Fetch nothing more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
