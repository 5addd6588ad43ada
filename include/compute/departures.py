"""Why an agent leaves, and what its job is granted before: one place that is asked at every turn."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from include.compute.imds_client import NoticeWatch
from include.compute.lease_keys import LeaseKeys
from include.compute.lifeline import LONGEST_GRACE_S, Lifeline, notice_grace_s
from include.compute.pace import Pace
from include.compute.spend_limit import SpendLimit
from include.compute.store_link import StoreLink
from include.core.clock import Clock

_log = logging.getLogger("plimsoll.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A reason to leave.

    Attributes:
        reason: What the last heartbeat says.
        grace_s: Seconds the job gets to commit after it has been told; None ends it with SIGTERM.
        action: What the job is told: what happens to its capacity.
        at: When, where that is known.
    """

    reason: str
    grace_s: float | None = None
    action: str = ""
    at: str = ""


class Departures:
    """Watches everything that makes one agent leave.

    Args:
        keys: Keys of the lease.
        link: The store.
        lifeline: Age, idleness and signals.
        watch: Asks the metadata endpoint.
        limit: What the lease may spend.
        pace: Intervals and graces.
        clock: Source of time.
    """

    def __init__(
        self,
        *,
        keys: LeaseKeys,
        link: StoreLink,
        lifeline: Lifeline,
        watch: NoticeWatch,
        limit: SpendLimit,
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._link = link
        self._lifeline = lifeline
        self._watch = watch
        self._limit = limit
        self._pace = pace
        self._clock = clock
        self._next_look = 0.0
        self._stop: object = None

    def look_soon(self) -> None:
        """Look at the store at the next turn."""
        self._next_look = 0.0

    def look(self) -> bool:
        """Look at the stop mark when it is time to; True when it was."""
        if self._clock.monotonic() < self._next_look:
            return False
        self._next_look = self._clock.monotonic() + self._pace.control_s
        # What was seen once stays, also while the store does not answer.
        self._stop = self._link.get_json(self._keys.stop) or self._stop
        return True

    def at_once(self) -> Departure | None:
        """A reason that ends a job with SIGTERM; it also cuts short the longer grace of a notice."""
        if self._link.silent_s > self._pace.unreachable_s:
            return Departure(reason="unreachable")
        stopped = self._stop is not None and _grace_of(self._stop) is None
        reason = self._lifeline.reason_to_leave(stopped=stopped)
        return None if reason is None else Departure(reason=reason)

    def after_notice(self) -> Departure | None:
        """A reason that leaves the job time to commit."""
        notice, grace_s = self._watch.notice, _grace_of(self._stop)
        if notice is not None:
            return Departure(
                reason="preempted", grace_s=notice_grace_s(notice.left_s), action=notice.action, at=notice.at
            )
        if grace_s is not None:
            return Departure(reason=_reason_of(self._stop), grace_s=min(grace_s, LONGEST_GRACE_S), action="stop")
        if self._limit.reached(self._lifeline.age_s):
            return Departure(reason="budget", grace_s=LONGEST_GRACE_S, action="budget")
        return None

    def any(self) -> Departure | None:
        """Whatever makes an agent without a job leave."""
        return self.at_once() or self.after_notice()


def _grace_of(stop: object) -> float | None:
    """Seconds that a stop mark grants the job, None where it grants none."""
    grace_s = stop.get("grace_s") if isinstance(stop, dict) else None
    return float(grace_s) if isinstance(grace_s, int | float) and grace_s > 0 else None


def _reason_of(stop: object) -> str:
    reason = stop.get("reason") if isinstance(stop, dict) else None
    return reason if isinstance(reason, str) and reason else "stopped"
