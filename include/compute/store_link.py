"""The agent's link to the store: an outage must not end a job, but an agent that nobody can reach must not stay."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from obstore.exceptions import BaseError

from include.core.clock import Clock
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.agent")
T = TypeVar("T")
RETRY_AFTER_S = 2.0


class StoreLink:
    """Store calls that answer a default instead of raising; trouble is reported once per outage.

    During an outage only one call every few seconds really goes out, since each may take as long as the store's
    patience and the agent has a job to watch meanwhile.

    Args:
        store: The store.
        clock: Source of time.
    """

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._silent_since: float | None = None
        self._next_try = clock.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the store last answered, 0 while it answers."""
        return 0.0 if self._silent_since is None else self._clock.monotonic() - self._silent_since

    def exists(self, key: str) -> bool:
        """Whether the object is known to be there."""
        return self._attempt(lambda: self._store.exists(key), default=False)

    def put_json(self, key: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
        """Write a document; False when the store did not take it."""

        def write() -> bool:
            self._store.put_json(key, value)
            return True

        return self._attempt(write, default=False)

    def create(self, key: str, data: bytes) -> bool:
        """Make sure an object that only this agent writes is there; False when the store did not take it."""

        def write() -> bool:
            self._store.create(key, data)  # already there: an earlier try arrived although its answer did not
            return True

        return self._attempt(write, default=False)

    def claim(self, key: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
        """Create-if-absent for a document; False when it was there, or the store did not take it."""
        return self._attempt(lambda: self._store.create_json(key, value), default=False)

    def names(self, prefix: str) -> list[str]:
        """Last segments of all keys below a prefix, sorted; empty when the store does not answer."""
        return self._attempt(lambda: sorted(key.rpartition("/")[2] for key, _ in self._store.list(prefix)), default=[])

    def get_json(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        """A document; None where there is none, or the store does not answer."""
        return self._attempt(lambda: self._store.get_json(key), default=None)

    def _attempt(self, action: Callable[[], T], *, default: T) -> T:
        if self._silent_since is not None and self._clock.monotonic() < self._next_try:
            return default
        try:
            answer = action()
        except (BaseError, OSError) as error:
            self._next_try = self._clock.monotonic() + RETRY_AFTER_S
            if self._silent_since is None:
                self._silent_since = self._clock.monotonic()
                _log.warning("the store does not answer, trying on: %s", error)
            return default
        if self._silent_since is not None:
            _log.info("the store answers again after %.1f s", self.silent_s)
            self._silent_since = None
        return answer
