"""Micro-batching: requests that wait together run together.

A request that finds the queue empty runs at once: waiting for company costs a lone client latency and wins nothing.
Under load the queue fills while a batch runs, and only then may a short wait fill the next batch up. Each version of
each model has a batcher of its own, so a batch never mixes two versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]


class OverloadedError(Exception):
    """The queue is full, or the request waited past its deadline: the client should come back later."""


@dataclass(slots=True)
class _Waiting:
    rows: Rows
    deadline: float
    future: asyncio.Future[NDArray[Any]]


class MicroBatcher:
    """Collects rows of concurrent requests into batches for one model version.

    Args:
        run: Maps ``(rows, *sample)`` to ``(rows, ...)``; called in one thread, never concurrently.
        max_rows: Rows of a batch; a single larger request runs alone.
        max_wait_s: Seconds a batch may wait for more once there is a backlog.
        max_queue: Requests that may wait.
        on_batch: Told the number of rows of every batch.
    """

    def __init__(
        self,
        run: Callable[[Rows], NDArray[Any]],
        *,
        max_rows: int = 64,
        max_wait_s: float = 0.002,
        max_queue: int = 512,
        on_batch: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self._run = run
        self._max_rows = max_rows
        self._max_wait_s = max_wait_s
        self._on_batch = on_batch
        self._queue: asyncio.Queue[_Waiting | None] = asyncio.Queue(max_queue + 1)
        self._max_queue = max_queue
        self._held: _Waiting | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inference")
        self._task = asyncio.get_running_loop().create_task(self._serve())

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._queue.qsize()

    def submit(self, rows: Rows, *, deadline: float) -> asyncio.Future[NDArray[Any]]:
        """Queue one request.

        Args:
            rows: Its rows, float32.
            deadline: Time of the event loop's clock after which the answer is worthless.

        Raises:
            OverloadedError: The queue is full.
        """
        if self._queue.qsize() >= self._max_queue:
            raise OverloadedError(f"{self._max_queue} requests are waiting already")
        future: asyncio.Future[NDArray[Any]] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_Waiting(rows, deadline, future))
        return future

    async def close(self) -> None:
        """Answer what is queued, then end. Nothing may be submitted any more."""
        await self._queue.put(None)
        await self._task
        self._thread.shutdown()

    async def _serve(self) -> None:
        while True:
            first = self._held or await self._queue.get()
            self._held = None
            if first is None:
                return
            batch, closing = await self._collect(first)
            await self._answer(self._in_time(batch))
            if closing:
                return

    async def _collect(self, first: _Waiting) -> tuple[list[_Waiting], bool]:
        loop = asyncio.get_running_loop()
        batch, rows = [first], len(first.rows)
        until = loop.time() + (0.0 if self._queue.empty() else self._max_wait_s)
        while rows < self._max_rows:
            following = await self._next(until)
            if following is None:
                break
            if isinstance(following, bool):
                return batch, True
            if rows + len(following.rows) > self._max_rows:
                self._held = following
                break
            batch.append(following)
            rows += len(following.rows)
        return batch, False

    async def _next(self, until: float) -> _Waiting | bool | None:
        """Next request; True at the end of the queue; None when the wait is over."""
        if self._queue.empty():
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return None
            try:
                item = await asyncio.wait_for(self._queue.get(), left)
            except TimeoutError:
                return None
        else:
            item = self._queue.get_nowait()
        return True if item is None else item

    def _in_time(self, batch: list[_Waiting]) -> list[_Waiting]:
        now = asyncio.get_running_loop().time()
        kept = []
        for item in batch:
            if item.future.done():
                continue
            if now > item.deadline:
                item.future.set_exception(OverloadedError("the request waited past its deadline"))
            else:
                kept.append(item)
        return kept

    async def _answer(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        rows = batch[0].rows if len(batch) == 1 else np.concatenate([item.rows for item in batch])
        self._on_batch(len(rows))
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, rows)
        except Exception as error:  # noqa: BLE001 - the error belongs to the callers, the loop must go on
            await self._answer_apart(batch, error)
            return
        start = 0
        for item in batch:
            if not item.future.done():
                item.future.set_result(answers[start : start + len(item.rows)])
            start += len(item.rows)

    async def _answer_apart(self, batch: list[_Waiting], error: Exception) -> None:
        """One bad request must not fail its neighbours: each runs again on its own."""
        if len(batch) > 1:
            for item in batch:
                await self._answer([item])
        elif not batch[0].future.done():
            batch[0].future.set_exception(error)
