"""Wait for something to become true, without guessing how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, within_s: float = 10.0, what: str = "", every_s: float = 0.02) -> T:
    """The first true answer of ``condition``.

    Raises:
        AssertionError: There was none in time.
    """
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or condition}")
        time.sleep(every_s)
    return answer
