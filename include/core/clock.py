"""The clock as a port, so that expiry and silence can be tested without waiting."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Wall clock for records, monotonic clock for durations."""

    def now(self) -> datetime:
        """Aware UTC time for records."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, for durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Aware UTC time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for real."""
        time.sleep(seconds)


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only when it is told to; ships so that users can test their own policies."""

    current: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    elapsed: float = 0.0

    def now(self) -> datetime:
        """The pretended time."""
        return self.current

    def monotonic(self) -> float:
        """The pretended seconds."""
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting."""
        self.current += timedelta(seconds=seconds)
        self.elapsed += seconds


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, the only form in which a time is stored."""
    return moment.astimezone(UTC).isoformat()
