"""How long a save goes on asking a store that does not answer: a while in general, less once a notice has come."""

from __future__ import annotations

import errno
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from include.core.errors import StoreError

_log = logging.getLogger("plimsoll.checkpoint")
# What no waiting mends.
_LASTING = (
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}

T = TypeVar("T")


@dataclass(slots=True)
class Patience:
    """Shared by all that one worker's saves do with the store.

    After a notice, a store that does not answer is asked for half of the time that is left, at most. A save that gets
    on may take longer, but nothing is waited for when four fifths are over.

    Attributes:
        within_s: Seconds for which one action is tried again and again.
        grace_s: Seconds until this process is killed, as far as it knows; None without a notice.
        unanswered: Whether the last try of any action failed.
    """

    within_s: float
    grace_s: Callable[[], float | None] = lambda: None
    unanswered: bool = False
    _no_try_after: float = math.inf
    _over_at: float = math.inf

    def may_try_until(self, began: float) -> float:
        """Monotonic time after which an action that began then is not tried again."""
        self._look()
        return min(began + self.within_s, self._no_try_after)

    def is_over(self) -> bool:
        """Whether something under way is not worth waiting for any more."""
        self._look()
        return time.monotonic() >= (self._no_try_after if self.unanswered else self._over_at)

    def _look(self) -> None:
        if math.isinf(self._over_at) and (left := self.grace_s()) is not None:
            now = time.monotonic()
            self._no_try_after, self._over_at = now + left / 2, now + 0.8 * left


def patiently(action: Callable[[], T], *, patience: Patience) -> T:
    """Do something with the store, again and again while it does not answer.

    Raises:
        StoreError: It failed for good, or for longer than allowed.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE_S
    while True:
        try:
            found = action()
        except (BaseError, OSError) as error:
            patience.unanswered, now = True, time.monotonic()
            lasting = isinstance(error, _LASTING) or _disk_full(error)
            if lasting or now + pause > patience.may_try_until(began):
                raise StoreError(f"cannot write to the store ({now - began:.1f} s tried): {error}") from error
            _log.warning("the store does not answer, next try in %.1f s: %s", pause, error)
        else:
            patience.unanswered = False
            return found
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _disk_full(error: Exception) -> bool:
    # obstore tells an error of the file system by its text alone.
    return getattr(error, "errno", None) in _DISK_FULL or os.strerror(errno.ENOSPC) in str(error)
