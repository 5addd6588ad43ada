"""Worker processes that fill batches ahead of their use, in turn."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
from collections import deque
from typing import Any

import numpy.typing as npt

from include.core.errors import DataError, StoreError
from include.core.json_codec import to_json
from include.data.stream.loading import StreamPlan
from include.data.stream.order import Ints
from include.data.stream.slots import Slots, shared_file

# Batches that each worker may be ahead of the one in use: each has a place in memory.
_AHEAD = 2
_END_S = 5.0
# What a worker answers for a batch that is filled; other answers are longer, and rare.
_FILLED = b"{}\n"
_LARGEST_READ = 65536


class Workers:
    """A few processes and the memory that they share with this one.

    Args:
        plan: What is streamed.
        count: Number of processes, at least 1.
        rows: Most rows of a batch.
    """

    def __init__(self, plan: StreamPlan, *, count: int, rows: int) -> None:
        self.rows = rows
        # One more than can be ordered: the batch in use keeps its place until the next one is asked for.
        self.capacity = count * _AHEAD
        self._slot_count = self.capacity + 1
        self._slots = Slots(plan.format, rows=rows, count=self._slot_count)
        self._descriptor = shared_file(self._slots.total_bytes)
        self._slots.attach(self._descriptor)
        setup = {"plan": to_json(plan), "rows": rows, "slots": self._slot_count, "descriptor": self._descriptor}
        self._processes = [self._started(setup) for _ in range(count)]
        # Answers that have come and were not needed yet, by process. Not in Python's own buffer, which hides them.
        self._unread = [bytearray() for _ in self._processes]
        self._ordered: deque[tuple[int, int, int]] = deque()
        self._orders = self._run = 0
        self.skipped: dict[str, str] = {}

    def _started(self, setup: dict[str, Any]) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        process = subprocess.Popen(
            [sys.executable, "-m", "include.data.stream.worker"],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(self._descriptor,),
        )
        self._send(process, setup)
        return process

    @staticmethod
    def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            # It is told with the batch that will not come.
            return

    @property
    def waiting(self) -> int:
        """Batches that were ordered and not taken."""
        return len(self._ordered)

    @property
    def ready(self) -> int:
        """Batches that are filled and not taken. Any thread may ask."""
        came = sum(unread.count(b"\n") for unread in self._unread)
        return came + sum(_bytes_in_pipe(process) // len(_FILLED) for process in self._processes)

    def order(self, *, epoch: int, begin: int, end: int) -> None:
        """Have a batch filled: the rows at positions ``begin`` to ``end`` (exclusive) of an epoch."""
        worker, slot = self._orders % len(self._processes), self._orders % self._slot_count
        self._orders += 1
        self._ordered.append((worker, slot, end - begin))
        order = {"slot": slot, "epoch": epoch, "begin": begin, "end": end, "run": self._run}
        self._send(self._processes[worker], order)

    def take(self) -> tuple[npt.NDArray[Any], Ints]:
        """The batch ordered first; valid until the next one is taken.

        Raises:
            DataError: Its data cannot be used.
            StoreError: It could not be read for another reason.
        """
        worker, slot, rows = self._ordered.popleft()
        answer = self._answer(worker)
        if "bad_data" in answer:
            raise DataError(answer["bad_data"])
        if "failed" in answer:
            raise StoreError(f"a batch could not be read: {answer['failed']}")
        return self._slots.view(slot, rows)

    def _answer(self, worker: int) -> dict[str, Any]:
        process, unread = self._processes[worker], self._unread[worker]
        assert process.stdout is not None
        while (end := unread.find(b"\n")) < 0:
            came = os.read(process.stdout.fileno(), _LARGEST_READ)
            if not came:
                code = process.wait(_END_S)
                raise StoreError(f"a loader process ended with exit code {code}; its errors are in the log")
            unread += came
        line = bytes(unread[: end + 1])
        del unread[: end + 1]
        answer: dict[str, Any] = json.loads(line)
        self.skipped.update(answer.get("skipped", {}))
        return answer

    def forget(self) -> None:
        """Take back all orders; what the processes are at is finished first.

        Raises:
            StoreError: A process has ended.
        """
        for process in self._processes:
            self._send(process, {"forget": self._run})
        self._run += 1
        while self._ordered:
            self._answer(self._ordered.popleft()[0])

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(_END_S)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()
            try:
                process.stdin.close()
            except BrokenPipeError:
                continue
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _bytes_in_pipe(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    try:
        found = fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, bytes(4))
    except (OSError, ValueError):
        return 0  # it was closed meanwhile
    return int.from_bytes(found, sys.byteorder)
