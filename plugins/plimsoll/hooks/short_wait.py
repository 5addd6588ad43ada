"""Wait in the task itself for a short job: a deferral costs seconds, the slot of a worker for as long costs less."""

from __future__ import annotations

import time
from collections.abc import Iterator

from include.core.ids import log_chunk_key
from include.core.store import ObjectStore

_LOOK_EVERY_S = 0.2


def exits_within(store: ObjectStore, base: str, *, seconds: float) -> bool:
    """Whether the attempt ends within this time; its log is then complete in the store.

    Args:
        store: The object store.
        base: Store prefix of the attempt.
        seconds: How long to wait at most.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        beat = store.get_json(f"{base}/heartbeat.json") or {}
        if beat.get("state") == "exited":
            return True
        time.sleep(_LOOK_EVERY_S)
    return False


def log_lines(store: ObjectStore, base: str) -> Iterator[str]:
    """The attempt's log, each line with the number of its chunk."""
    number = 1
    while (chunk := store.get(log_chunk_key(base, number))) is not None:
        yield from numbered(chunk, number)
        number += 1


def numbered(chunk: bytes, number: int) -> Iterator[str]:
    """Lines of one chunk as a task log shows them."""
    for line in chunk.decode(errors="replace").splitlines():
        yield f"[{number:06d}] {line}"
