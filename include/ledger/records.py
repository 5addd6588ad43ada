"""What the ledger takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from include.config.quota_file import Limits, TeamQuota

# Endings of an attempt that count against the preemption budget: the capacity went away, the job is not to blame.
INTERRUPTIONS = ("preempted", "lost", "signal")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentLimits:
    """What an intent must not exceed; None = not limited.

    Attributes:
        quota_leases: Leases of ``train-`` and ``work-`` groups that may be open at once, over all runs.
        budget_usd: What the run may spend in all.
        commit_usd: What the new lease is expected to spend; unknown counts as nothing, so only spent money is checked.
        team: Team that holds and pays the lease; empty for a lease of nobody's, which no quota counts.
        gpus: Accelerators of the lease, over all its instances.
        usd_per_h: Price of one hour of the lease, over all instances: the dearest candidate's, since any may be had.
        quota: What the team may hold and spend.
        total: What all teams together may hold and spend.
        priority: Where leases wait, the higher one goes first; see `include.config.quota_file.Quotas.priority`.
    """

    quota_leases: int | None = None
    budget_usd: Decimal | None = None
    commit_usd: Decimal | None = None
    team: str = ""
    gpus: int = 0
    usd_per_h: Decimal | None = None
    quota: TeamQuota | None = None
    total: Limits | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A lease that waits because a quota is used up.

    Attributes:
        number: Grows with every entry; of the same priority and time, the lower one goes first.
        group_id: Group of the lease.
        dag_id: DAG of the run that asks.
        run_id: The run that asks.
        team: Team that would hold the lease.
        priority: The higher one goes first.
        gpus: Accelerators asked for.
        usd_per_h: Price of one hour of what is asked for, None where unknown.
        quota_gpus: Accelerators that its team may hold, None = not limited.
        quota_usd_per_h: What an hour of its team may cost, None = not limited.
        since: ISO time from which it waits without a break; of a run that lost its lease, when it got its first one.
        asked_at: ISO time at which it last asked.
    """

    number: int
    group_id: str
    dag_id: str
    run_id: str
    team: str
    priority: int
    gpus: int
    usd_per_h: Decimal | None
    quota_gpus: int | None
    quota_usd_per_h: Decimal | None
    since: str
    asked_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamUse:
    """What a team holds now and what this month costs it.

    Attributes:
        team: The team.
        leases: Its open leases.
        gpus: Accelerators of them.
        usd_per_h: Price of one hour of them, as far as known.
        month: First day of the calendar month (UTC), an ISO date.
        spent_usd: Charges of its leases, the part of their time that lies in this month, as far as known.
        promised_usd: What its open leases are expected to spend, as far as known.
    """

    team: str
    leases: int = 0
    gpus: int = 0
    usd_per_h: Decimal = Decimal(0)
    month: str = ""
    spent_usd: Decimal = Decimal(0)
    promised_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A lease that may be launched, and whether this call opened it."""

    lease_id: str
    generation: int
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLease:
    """A lease with an intent and no end; ``since`` is the ISO time of the intent."""

    lease_id: str
    group_id: str
    dag_id: str
    run_id: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The life of one lease as the ledger knows it.

    Attributes:
        lease_id: The lease.
        group_id: Its group.
        dag_id: Owning DAG, empty for a shared lease.
        run_id: Owning run, empty for a shared lease.
        launched_at: ISO time of the launch, None before it.
        ended_at: ISO time at which its end was recorded, None while it is open.
        details: What was recorded at the launch.
    """

    lease_id: str
    group_id: str
    dag_id: str
    run_id: str
    launched_at: str | None
    ended_at: str | None
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a job on a lease.

    Attributes:
        dag_id: DAG of the run.
        run_id: Run that owns the job.
        job: Job without its attempt number, for example ``train``.
        number: Attempt number, from 1, without gaps per (dag, run, job).
        lease_id: Lease it runs on.
        group_id: Group of that lease.
        started_at: ISO time at which it was opened.
        details: What the opener recorded.
        ended_at: ISO time at which its end was recorded, None while it is open.
        reason: How it ended: ``done``, ``preempted``, ``lost``, ``signal``, ``error`` or whatever the caller said.
        end_details: What the closer recorded, None while it is open.
    """

    dag_id: str
    run_id: str
    job: str
    number: int
    lease_id: str
    group_id: str
    started_at: str
    details: dict[str, Any]
    ended_at: str | None = None
    reason: str | None = None
    end_details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEvent:
    """One row of ``events``."""

    id: int
    at: str
    kind: str
    group_id: str | None
    lease_id: str | None
    generation: int | None
    dag_id: str | None
    run_id: str | None
    job: str | None
    attempt: int | None
    reason: str | None
    body: dict[str, Any]
