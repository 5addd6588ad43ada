"""What the ledger takes and gives back."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

# Endings of an attempt that count against the preemption budget: the capacity went away, the job is not to blame.
INTERRUPTIONS = ("preempted", "lost", "signal")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentLimits:
    """What an intent must not exceed; None = not limited.

    Attributes:
        quota_leases: Leases of ``train-`` and ``work-`` groups that may be open at once, over all runs.
        budget_usd: What the run may spend in all.
        commit_usd: What the new lease is expected to spend; unknown counts as nothing, so only spent money is checked.
    """

    quota_leases: int | None = None
    budget_usd: Decimal | None = None
    commit_usd: Decimal | None = None


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
