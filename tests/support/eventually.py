"""Waiting for something another task does, without guessing how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    """Give other tasks their turn until the condition holds."""
    step_s = 0.002
    for _ in range(int(within_s / step_s)):
        if condition():
            return
        await asyncio.sleep(step_s)
    raise AssertionError(f"not within {within_s} s")
