"""How long nothing was heard: judged by sequence numbers on this process's own clock, outages of the store apart."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

Heard = TypeVar("Heard")

_log = logging.getLogger(__name__)
# A trigger that cannot read for so long gives up, and its task's retry says why.
_LONGEST_OUTAGE_S = 600.0
# One read of a trigger; documents and log chunks are small.
READ_PATIENCE_S = 10.0


def seconds_left(until: float, *, at_most: float) -> float:
    """Seconds until a moment of the wall clock, which may have jumped: never more than ``at_most``, never below 0."""
    return min(max(until - time.time(), 0.0), at_most)


class Silence:
    """Of one job and its lease.

    While the store does not answer nobody can be heard, and an agent cannot write either: such time does not count.

    Args:
        lost_after_s: Seconds without any new heartbeat after which they count as lost.
        boot_s: Seconds in which the lease may come up; until then its first heartbeat is waited for.
    """

    def __init__(self, *, lost_after_s: float, boot_s: float = 0.0) -> None:
        self._lost_after_s = lost_after_s
        self._booted_by = time.monotonic() + boot_s
        self._seen: tuple[Any, ...] = ()
        self._changed = time.monotonic()
        self._came_up = False
        self._deaf_since: float | None = None

    async def listen(self, reading: Awaitable[Heard]) -> Heard | None:
        """What a read of the store gives; None where it fails, after which it is to be tried again.

        Raises:
            Exception: It fails since ten minutes, as it did.
        """
        began = time.monotonic()
        try:
            heard = await reading
        except Exception as error:
            if self._deaf_since is None:
                self._deaf_since = began
                _log.warning("the store does not answer, this watch goes on: %s", error)
            if time.monotonic() - self._deaf_since > _LONGEST_OUTAGE_S:
                raise
            return None
        finally:
            self._changed += time.monotonic() - began
        self._deaf_since = None
        return heard

    def hear(self, *beats: Mapping[str, Any]) -> None:
        """Take note of what was read."""
        now = tuple(beat.get("sequence") for beat in beats)
        self._came_up = self._came_up or any(number is not None for number in now)
        if now != self._seen:
            self._seen, self._changed = now, time.monotonic()

    @property
    def seconds(self) -> float:
        """How long nothing changed."""
        return time.monotonic() - self._changed

    @property
    def too_long(self) -> bool:
        """Whether that is a loss."""
        return self.seconds > self._lost_after_s and (self._came_up or time.monotonic() > self._booted_by)
