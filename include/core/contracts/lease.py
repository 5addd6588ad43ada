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
class LaunchCandidate:
    """One offer that would do for a lease.

    Attributes:
        instance_type: Type to launch.
        purchase: Purchase option, a value of `PurchaseOption`.
        region: Cloud region.
        zone: Zone by name, None for any zone of the region.
        usd_per_h: Price of one instance, as a decimal string, None where unknown.
        list_usd_per_h: On-demand price of the same type, as a decimal string, None where unknown.
        price: Date, source and method of the price: ``price_as_of``, ``price_source``, ``price_method``.
        idle_w: Power of one instance at idle in watts, None where unknown.
        peak_w: Power of one instance at full load in watts, None where unknown.
        gco2e_per_kwh: Grid intensity of the region, None where unknown.
        vcpus: Virtual CPUs of one instance: what the provider's quotas count.
        accelerators: Accelerators of one instance: what a team's quota counts.
    """

    instance_type: str
    purchase: str
    region: str
    zone: str | None = None
    usd_per_h: str | None = None
    list_usd_per_h: str | None = None
    price: dict[str, str] = field(default_factory=dict)
    idle_w: float | None = None
    peak_w: float | None = None
    gco2e_per_kwh: float | None = None
    vcpus: int = 0
    accelerators: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything an engine needs to launch a lease; ``lease_id`` is the idempotency token.

    Attributes:
        lease_id: Token: the same token never makes a second lease.
        group_id: What teardown and reaper search by.
        run_id: Airflow run that owns the lease, for the reaper.
        dag_id: DAG of that run.
        expires_after_s: The agent ends itself after this many seconds. On rented machines that is the first horizon
            alone, which the agent moves on while all is well.
        idle_s: The agent ends itself after this many idle seconds.
        instance_type: Type to launch.
        purchase: Purchase option to launch with.
        usd_per_h: Price paid, as a decimal string, None where unknown.
        idle_w: Power at idle in watts, for the energy estimate.
        peak_w: Power at full load in watts, for the energy estimate.
        gco2e_per_kwh: Grid intensity for the carbon estimate, None where unknown.
        drill_notice_at: Inject one interruption notice when a job's progress passes this fraction (0..1); None = never.
        tags: Further tags.
        engine: Engine that the lease lives on.
        candidates: Offers that would do, best first; ``instance_type``, ``purchase``, price and powers above are those
            of the first. Empty on an engine that has one kind of capacity.
        instances: Instances, all of one type in one zone, all or none.
        owner: Person or team that pays, for tags.
        cost_centre: Cost centre, for tags.
        spend_limit_usd: What the lease may spend: its agent gives notice to the job and leaves when that is spent, as a
            decimal string; None = no limit of its own.
        storage_bytes: Scratch space on disk that the jobs need, None where unknown.
        longest_s: Life of the lease that no extension goes beyond, None for no such bound.
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
    engine: str = "local"
    candidates: tuple[LaunchCandidate, ...] = ()
    instances: int = 1
    owner: str = ""
    cost_centre: str = ""
    spend_limit_usd: str | None = None
    storage_bytes: int | None = None
    longest_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledTime:
    """What one instance is billed for by its provider.

    Attributes:
        instance_id: The provider's id.
        started_at: ISO time from which it is billed.
        ended_at: ISO time until which it is billed, None while it runs.
        usd_per_h: Price of it, as a decimal string, None where unknown.
    """

    instance_id: str
    started_at: str
    ended_at: str | None = None
    usd_per_h: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease as an engine describes it.

    Attributes:
        lease_id: The lease.
        group_id: Its group.
        state: What is known of it.
        dag_id: DAG that owns it, empty for a shared lease.
        run_id: Run that owns it, empty for a shared lease.
        expires_at: POSIX seconds at which it ends by itself, None where unknown.
        details: What was launched, for the ledger: ``instance_type``, ``region``, ``zone``, ``purchase``,
            ``usd_per_h``, ``list_usd_per_h``, ``price_*``, ``instance_ids`` (joined by commas). Empty where the request
            says it all.
        billed: Billed time of each instance, empty where only the lease's own life is known.
    """

    lease_id: str
    group_id: str
    state: LeaseState
    dag_id: str = ""
    run_id: str = ""
    expires_at: float | None = None
    details: dict[str, str] = field(default_factory=dict)
    billed: tuple[BilledTime, ...] = ()


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
