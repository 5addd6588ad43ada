"""Heartbeats: the documents by which an agent tells the world that it lives, and what its job does.

``leases/<lease-id>/heartbeat.json`` is a `LeaseHeartbeat`, ``<base>/heartbeat.json`` a `JobHeartbeat`. Readers judge
silence by ``sequence`` on their own clock, never by comparing ``at`` with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from include.core.contracts.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeartbeat:
    """State of an agent.

    Attributes:
        sequence: Grows with every beat.
        at: ISO time of the agent's clock, for people.
        state: ``idle``, ``busy`` or ``ended``.
        reason: Why it ended: ``stopped``, ``preempted``, ``expired``, ``idle``, ``sigterm``, ``budget``,
            ``unreachable``, ``node_lost``, or what an order to leave gave as its reason.
        job: Name of the running job.
        busy_s: Seconds spent running jobs so far.
        usage: Totals of the lease so far.
        spend_usd: Spend so far as a decimal string, None where the price is unknown.
        expires_at: POSIX seconds at which the lease ends by itself, as extended while all is well; None where its
            launch alone says so.
        rebalance_at: When the provider recommended to move away, as it words it; None without such advice.
    """

    sequence: int
    at: str
    state: Literal["idle", "busy", "ended"]
    reason: str = ""
    job: str | None = None
    busy_s: float = 0.0
    usage: Usage | None = None
    spend_usd: str | None = None
    expires_at: float | None = None
    rebalance_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeartbeat:
    """State of one attempt of a job.

    Attributes:
        sequence: Grows with every beat.
        at: ISO time of the agent's clock.
        state: ``running`` or ``exited``.
        exit_code: Exit code once exited, negative for a signal.
        progress: What the job wrote to ``progress.json``: ``fraction`` (0..1) and whatever it wants to show.
        chunks: Number of log chunks written so far (``log/000001`` ...).
        usage: Usage of this attempt so far.
        spend_usd: Spend of this attempt so far as a decimal string, None where the price is unknown.
    """

    sequence: int
    at: str
    state: Literal["running", "exited"]
    exit_code: int | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    chunks: int = 0
    usage: Usage | None = None
    spend_usd: str | None = None
