"""How the paid seconds of a lease are split. Pure.

Paid seconds fall into three parts that add up exactly, in milliseconds:

- useful: seconds of attempts that are done, and of other attempts up to their last committed checkpoint;
- lost: seconds of attempts that did not end done, after their last committed checkpoint (all, if there is none);
- idle: the rest, in which capacity was paid for and no attempt ran: start-up, waiting, shutdown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSeconds:
    """What one attempt took of its lease.

    Attributes:
        reason: How it ended; ``done`` loses nothing.
        seconds: Seconds it ran.
        lost_s: Seconds since its last committed checkpoint, all of them where there is none; None where nobody knows.
            Not read when the attempt is done.
    """

    reason: str
    seconds: float
    lost_s: float | None

    def times(self, instances: int) -> AttemptSeconds:
        """The same on so many instances at once."""
        lost_s = None if self.lost_s is None else self.lost_s * instances
        return AttemptSeconds(reason=self.reason, seconds=self.seconds * instances, lost_s=lost_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Paid seconds and their three parts, which add up exactly in milliseconds."""

    useful_s: float | None
    lost_s: float | None
    idle_s: float
    paid_s: float


def split_paid_time(*, paid_s: float, attempts: Iterable[AttemptSeconds]) -> Split:
    """Split paid seconds into useful, lost and idle.

    Attempts that together ran longer than the lease was paid for (clocks of two machines) lose the excess, first from
    the useful part. One attempt with an unknown loss makes useful and lost unknown; idle stays known.

    Args:
        paid_s: Paid seconds, 0 or more.
        attempts: All attempts that ran in these seconds.
    """
    known = tuple(attempts)
    paid = milliseconds(paid_s)
    ran = min(paid, sum(milliseconds(attempt.seconds) for attempt in known))
    idle = paid - ran
    if any(attempt.reason != "done" and attempt.lost_s is None for attempt in known):
        return Split(useful_s=None, lost_s=None, idle_s=idle / 1000, paid_s=paid / 1000)
    lost = min(ran, sum(_lost_ms(attempt) for attempt in known))
    return Split(useful_s=(ran - lost) / 1000, lost_s=lost / 1000, idle_s=idle / 1000, paid_s=paid / 1000)


def milliseconds(seconds: float) -> int:
    """Whole milliseconds of a duration, never negative."""
    return max(0, round(seconds * 1000))


def _lost_ms(attempt: AttemptSeconds) -> int:
    if attempt.reason == "done" or attempt.lost_s is None:
        return 0
    return min(milliseconds(attempt.lost_s), milliseconds(attempt.seconds))
