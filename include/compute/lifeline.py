"""When an agent leaves by itself. Pure rules over a clock."""

from __future__ import annotations

from include.core.clock import Clock

# EC2 may take the instance this long before the announced time, as seen from a clock that is a little off.
NOTICE_MARGIN_S = 30.0
# A job that has not committed a checkpoint by then will not.
LONGEST_GRACE_S = 90.0


def notice_grace_s(left_s: float) -> float:
    """Seconds a job gets between a notice and SIGKILL.

    Args:
        left_s: Seconds until the capacity goes away. EC2 promises 120; a shorter notice is split in halves rather
            than leaving the job nothing.
    """
    return min(max(left_s - NOTICE_MARGIN_S, left_s / 2, 0.0), LONGEST_GRACE_S)


class Lifeline:
    """Keeps count of an agent's age and idleness.

    Args:
        clock: Source of time.
        expires_after_s: Longest life, whatever happens.
        idle_s: Longest time without work.
    """

    def __init__(self, *, clock: Clock, expires_after_s: float, idle_s: float) -> None:
        self._clock = clock
        self._expires_after_s = expires_after_s
        self._idle_s = idle_s
        self._born = self._idle_since = clock.monotonic()
        self._sigterm = False

    @property
    def age_s(self) -> float:
        """Seconds since the agent began."""
        return self._clock.monotonic() - self._born

    def on_signal(self, *_: object) -> None:
        """Signal handler: remember that somebody asked the agent to end."""
        self._sigterm = True

    def worked(self) -> None:
        """There is work now: idleness starts again."""
        self._idle_since = self._clock.monotonic()

    def reason_to_leave(self, *, stopped: bool) -> str | None:
        """Why the agent must leave now, None to stay.

        Args:
            stopped: Whether the lease has a stop mark.
        """
        if self._sigterm:
            return "sigterm"
        if stopped:
            return "stopped"
        if self.age_s > self._expires_after_s:
            return "expired"
        if self._clock.monotonic() - self._idle_since > self._idle_s:
            return "idle"
        return None
