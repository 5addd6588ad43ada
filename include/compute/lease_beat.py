"""The heartbeat of a lease: that its agent lives, what it does, and what the lease has used and cost so far."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal

from include.compute.accounts import LeaseAccounts
from include.compute.alive_file import AliveFile
from include.compute.lifeline import Lifeline
from include.compute.pace import Pace
from include.compute.process_usage import TreeUsage, tree_usage
from include.compute.store_link import StoreLink
from include.core.clock import Clock, iso
from include.core.contracts.usage import Usage
from include.core.heartbeat import LeaseHeartbeat
from include.core.json_codec import to_json

State = Literal["idle", "busy", "ended"]


class LeaseBeat:
    """Writes ``leases/<id>/heartbeat.json``, or that of one node of several.

    Args:
        key: Where the beat goes.
        link: The store.
        accounts: Terms of the lease.
        lifeline: Knows the age of the agent and its end, which each beat may move on.
        pace: Intervals.
        clock: Source of time.
        alive: What tells the machine that all is well.
        others: Usage of the other nodes, where there are any that this beat speaks for.
    """

    def __init__(
        self,
        *,
        key: str,
        link: StoreLink,
        accounts: LeaseAccounts,
        lifeline: Lifeline,
        pace: Pace,
        clock: Clock,
        alive: AliveFile,
        others: Callable[[], Sequence[Usage]] | None = None,
    ) -> None:
        self._key = key
        self._alive = alive
        self._others = others
        self.rebalance_at: str | None = None
        self._link = link
        self._accounts = accounts
        self._lifeline = lifeline
        self._pace = pace
        self._clock = clock
        self._sequence = 0
        self._next = 0.0
        self._busy_s = 0.0
        self._tree = TreeUsage()

    def job_ended(self, *, wall_s: float, tree: TreeUsage) -> None:
        """Count a job that has ended."""
        self._busy_s += wall_s
        self._tree = self._tree.at_least(cpu_s=0.0, max_rss_bytes=tree.max_rss_bytes)
        self._next = 0.0

    def beat_if_due(self, state: State, *, job: str | None = None, job_wall_s: float = 0.0) -> None:
        """Beat about once a second."""
        if self._clock.monotonic() >= self._next:
            self._write(state, job=job, busy_s=self._busy_s + job_wall_s)

    def last(self, reason: str) -> bool:
        """The final beat, with the totals; False when the store did not take it."""
        return self._write("ended", reason=reason, busy_s=self._busy_s)

    def _write(self, state: State, *, busy_s: float, job: str | None = None, reason: str = "") -> bool:
        # The agent itself, what it has waited for, and what runs now: the lease pays for all of it.
        now = tree_usage(os.getpid())
        self._tree = self._tree.at_least(cpu_s=now.cpu_s, max_rss_bytes=now.max_rss_bytes)
        self._sequence += 1
        self._next = self._clock.monotonic() + self._pace.beat_s
        end = self._lifeline.next_end()
        own = self._accounts.usage(wall_s=self._lifeline.age_s, tree=self._tree)
        beat = LeaseHeartbeat(
            sequence=self._sequence,
            at=iso(self._clock.now()),
            state=state,
            reason=reason,
            job=job,
            busy_s=round(busy_s, 3),
            usage=own if self._others is None else self._accounts.whole(own, self._others()),
            spend_usd=self._accounts.spend(self._lifeline.age_s),
            expires_at=self._wall_time(end) if self._lifeline.extends else None,
            rebalance_at=self.rebalance_at,
        )
        taken = self._link.put_json(self._key, to_json(beat))
        if taken:
            self._lifeline.announced(end)
        if self._link.silent_s <= self._pace.unreachable_s:
            self._alive.touch()
        return taken

    def _wall_time(self, end: float) -> float:
        """POSIX seconds of a moment of the monotonic clock, as the wall clock of this moment sees it."""
        return round(self._clock.now().timestamp() + end - self._clock.monotonic(), 3)
