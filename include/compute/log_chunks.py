"""A job's output as numbered objects without gaps, because object stores cannot append."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from include.compute.store_link import StoreLink
from include.core.clock import Clock
from include.core.ids import log_chunk_key

CHUNK_BYTES = 64_000
CHUNK_EVERY_S = 2.0


class LogShipper:
    """Copies a growing file into ``<base>/log/000001``, ``000002``, ...; node 1 into ``<base>/log-1/...``.

    A chunk goes out every two seconds or 64 kB, whichever is first, and ends at a line where it can. It keeps its
    bytes until the store has confirmed it, so a repeated write after an unclear answer cannot tear the text.

    Args:
        path: The growing file.
        base: Store prefix of the attempt.
        link: The store.
        clock: Source of time.
        node_rank: Number of the node.
    """

    def __init__(self, *, path: Path, base: str, link: StoreLink, clock: Clock, node_rank: int = 0) -> None:
        self._source: BinaryIO = path.open("rb")
        self._base = base
        self._link = link
        self._clock = clock
        self._node_rank = node_rank
        self._pending = b""
        self._unconfirmed = b""
        self._last = clock.monotonic()
        self.chunks = 0

    def ship(self, *, final: bool = False) -> bool:
        """Send what is due; ``final`` sends everything.

        Returns:
            False when the store did not take a chunk; the next call tries again.
        """
        self._pending += self._source.read()
        while self._unconfirmed or self._due(final=final):
            if not self._unconfirmed:
                self._cut(final=final)
            key = log_chunk_key(self._base, self.chunks + 1, node_rank=self._node_rank)
            if not self._link.create(key, self._unconfirmed):
                return False
            self.chunks += 1
            self._unconfirmed = b""
            self._last = self._clock.monotonic()
        return True

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _due(self, *, final: bool) -> bool:
        if not self._pending:
            return False
        return final or len(self._pending) >= CHUNK_BYTES or self._clock.monotonic() - self._last >= CHUNK_EVERY_S

    def _cut(self, *, final: bool) -> None:
        window = self._pending[:CHUNK_BYTES]
        end = len(window) if final and len(window) == len(self._pending) else window.rfind(b"\n") + 1
        end = end or len(window)
        self._unconfirmed, self._pending = self._pending[:end], self._pending[end:]
