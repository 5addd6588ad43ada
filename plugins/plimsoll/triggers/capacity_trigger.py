"""Wait a while before capacity is asked for again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from plimsoll.triggers.silence import seconds_left


class CapacityTrigger(BaseTrigger):
    """Sleeps. Nothing is rented while it does, so nobody has to be stopped when its task is killed.

    Args:
        retry_after_s: How long.
        until: The same as POSIX seconds: a restarted triggerer does not begin anew. None counts from now.
        reason: Why there is no capacity, for the task's log.
    """

    def __init__(self, *, retry_after_s: float, until: float | None = None, reason: str = "") -> None:
        super().__init__()
        self.retry_after_s = retry_after_s
        self.until = time.time() + retry_after_s if until is None else until
        self.reason = reason

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Stored form; new arguments get defaults, old ones are never renamed."""
        return (
            "plimsoll.triggers.capacity_trigger.CapacityTrigger",
            {"retry_after_s": self.retry_after_s, "until": self.until, "reason": self.reason},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when it is time to ask again."""
        left = seconds_left(self.until, at_most=self.retry_after_s)
        self.log.info("capacity is asked for again in %.0f s: %s", left, self.reason)
        await asyncio.sleep(left)
        yield TriggerEvent({"status": "ask_again"})
