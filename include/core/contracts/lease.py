"""Capacity held for one run and group, and what an engine says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class LeaseState(StrEnum):
    """What an engine knows of a lease."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class JobPhase(StrEnum):
    """Where one attempt of a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything an engine needs to launch a lease; ``lease_id`` is the idempotency token.

    Attributes:
        lease_id: Token: the same token never makes a second lease.
        group_id: What teardown and reaper search by.
        run_id: Airflow run that owns the lease, for the reaper.
        dag_id: DAG of that run.
        expires_after_s: The agent ends itself after this many seconds, whatever happens.
        idle_s: The agent ends itself after this many idle seconds.
        instance_type: Type to launch.
        purchase: Purchase option to launch with.
        usd_per_h: Price paid, as a decimal string, None where unknown.
        idle_w: Power at idle in watts, for the energy estimate.
        peak_w: Power at full load in watts, for the energy estimate.
        gco2e_per_kwh: Grid intensity for the carbon estimate, None where unknown.
        drill_notice_at: Inject one interruption notice when a job's progress passes this fraction (0..1); None = never.
        tags: Further tags.
    """

    lease_id: str
    group_id: str
    run_id: str
    dag_id: str
    expires_after_s: float
    idle_s: float = 120.0
    instance_type: str = "this-machine"
    purchase: str = "local"
    usd_per_h: str | None = None
    idle_w: float | None = None
    peak_w: float | None = None
    gco2e_per_kwh: float | None = None
    drill_notice_at: float | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease as an engine describes it."""

    lease_id: str
    group_id: str
    state: LeaseState
    dag_id: str = ""
    run_id: str = ""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTicket:
    """One attempt of a job as it is put into a lease's queue.

    Attributes:
        name: Queue name, unique over all runs that share the lease.
        kind: Job kind.
        base: Store prefix of this attempt: request, result, heartbeat, outcome and log live below it.
        request_uri: URI of ``request.json``.
    """

    name: str
    kind: str
    base: str
    request_uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """Answer of ``poll``.

    Attributes:
        phase: Where the attempt stands.
        exit_code: Exit code once exited; negative for death by a signal.
        result: Parsed ``result.json`` when there is one.
        reason: Why it was lost or how it ended, for people.
    """

    phase: JobPhase
    exit_code: int | None = None
    result: dict[str, object] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """What ``release`` did.

    Attributes:
        ended: Lease id -> how it ended.
        left: Leases that are still alive; empty unless something is badly wrong.
    """

    ended: dict[str, str]
    left: tuple[str, ...] = ()
