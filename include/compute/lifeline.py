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
    """Keeps count of an agent's age and idleness, on the monotonic clock alone: a wall clock may jump.

    Args:
        clock: Source of time.
        expires_after_s: Life of the agent, or its first horizon where it extends its life.
        idle_s: Longest time without work.
        extends: Whether the agent moves its end on while all is well.
        longest_s: Age that no extension goes beyond, None for no such bound.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        expires_after_s: float,
        idle_s: float,
        extends: bool = False,
        longest_s: float | None = None,
    ) -> None:
        self._clock = clock
        self._horizon_s = expires_after_s
        self._idle_s = idle_s
        self._born = self._idle_since = clock.monotonic()
        self._last_end = None if longest_s is None else self._born + longest_s
        self._ends_at = self._bounded(self._born + expires_after_s)
        self._extends = extends
        self._leaving = False
        self._sigterm = False

    @property
    def age_s(self) -> float:
        """Seconds since the agent began."""
        return self._clock.monotonic() - self._born

    @property
    def extends(self) -> bool:
        """Whether the agent moves its end on, so that others have to be told of it."""
        return self._extends

    def next_end(self) -> float:
        """The end that the next heartbeat should announce, on the monotonic clock.

        It is moved on by the whole horizon once half of it is used up, and not any more once the agent is leaving.
        """
        now = self._clock.monotonic()
        if not self._extends or self._leaving or self._ends_at - now > self._horizon_s / 2:
            return self._ends_at
        return max(self._ends_at, self._bounded(now + self._horizon_s))

    def announced(self, end: float) -> None:
        """Others know of that end: only then it holds, so that nobody takes a living lease for an expired one."""
        self._ends_at = max(self._ends_at, end)

    def leave(self) -> None:
        """The agent has a reason to leave: from here on its life is not extended."""
        self._leaving = True

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
        if self._clock.monotonic() > self._ends_at:
            return "expired"
        if self._clock.monotonic() - self._idle_since > self._idle_s:
            return "idle"
        return None

    def _bounded(self, end: float) -> float:
        return end if self._last_end is None else min(end, self._last_end)
