"""Settle accounts when capacity ends: the end of a lease with its charge, and the charge of a job on a shared lease.

Called by whoever ended the lease (recovery, teardown, reaper). Idempotent: a second call changes nothing, except that
it charges what the first one could not, because an instance was still billed then.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from include.compute.job_calls import JobCall
from include.core.contracts.lease import BilledTime, Lease
from include.core.ids import job_name, run_prefix
from include.core.store import ObjectStore
from include.ledger.charges import AttemptSeconds, job_charge, lease_charge
from include.ledger.ledger import Attempt, Ledger

_log = logging.getLogger(__name__)
# The driver closes the attempt itself, with the reason that counts against the preemption budget, or does not.
_RECOVERED = ("lost", "preempted", "found dead", "budget", "moved")


def settle_lease(*, store: ObjectStore, ledger: Ledger, lease_id: str, reason: str, lease: Lease | None = None) -> bool:
    """Write the end of a lease, end its open attempts and charge its life to its run.

    Args:
        store: Where its heartbeats are.
        ledger: Where it is written.
        lease_id: A lease that does not run any more.
        reason: Why it ended.
        lease: The lease as its engine describes it now, with what its instances are billed for; None, or without that:
            its life is estimated from its launch and its last heartbeat.

    Returns:
        True when this call wrote the end.
    """
    record = ledger.lease_record(lease_id)
    if record is None:
        return False
    for attempt in ledger.open_attempts(group_id=record.group_id):
        # A shared lease outlives runs: what still runs there is re-attached by its own task, not ended from here.
        if attempt.lease_id == lease_id and record.run_id and reason not in _RECOVERED:
            ledger.end_attempt(
                dag_id=attempt.dag_id, run_id=attempt.run_id, job=attempt.job, attempt=attempt.number, reason=reason
            )
    wrote = ledger.ended(group_id=record.group_id, lease_id=lease_id, reason=reason)
    billed = () if lease is None else lease.billed
    # A launch that nobody lived to record is billed all the same.
    if record.run_id and (record.launched_at is not None or billed):
        _charge_lease(store=store, ledger=ledger, lease_id=lease_id, lease=lease, billed=billed)
    return wrote


def _charge_lease(
    *, store: ObjectStore, ledger: Ledger, lease_id: str, lease: Lease | None, billed: tuple[BilledTime, ...]
) -> None:
    if running := [one.instance_id for one in billed if one.ended_at is None]:
        _log.warning("lease %s is not charged yet, still billed: %s", lease_id, ", ".join(running))
        return
    record = ledger.lease_record(lease_id)
    assert record is not None
    attempts = ledger.attempts(dag_id=record.dag_id, run_id=record.run_id)
    heartbeat = store.get_json(f"leases/{lease_id}/heartbeat.json")
    started_at = datetime.fromisoformat(record.launched_at or min(one.started_at for one in billed))
    ledger.charge(
        lease_charge(
            lease_id=lease_id,
            dag_id=record.dag_id,
            run_id=record.run_id,
            launch=record.details or ({} if lease is None else lease.details),
            billed=billed,
            heartbeat=heartbeat,
            started_at=started_at,
            ended_at=max(started_at, _end_of(heartbeat, record.ended_at)),
            attempts=[_attempt_seconds(store, attempt) for attempt in attempts if attempt.lease_id == lease_id],
        )
    )


def _end_of(heartbeat: dict[str, Any] | None, ended_at: str | None) -> datetime:
    """When the lease stopped to cost: its own last word if it said goodbye, else when its end was written."""
    if heartbeat is not None and heartbeat.get("state") == "ended":
        return datetime.fromisoformat(heartbeat["at"])
    return datetime.fromisoformat(ended_at) if ended_at else datetime.now(UTC)


def settle_job(*, store: ObjectStore, ledger: Ledger, call: JobCall, attempt: int, lease_id: str, base: str) -> None:
    """Charge one ended attempt on a lease that runs share to the run that asked for it."""
    heartbeat = store.get_json(f"{base}/heartbeat.json")
    found = [
        a for a in ledger.attempts(dag_id=call.dag_id, run_id=call.run_id) if (a.job, a.number) == (call.job, attempt)
    ]
    if not found:
        return
    ledger.charge(
        job_charge(
            lease_id=lease_id,
            dag_id=call.dag_id,
            run_id=call.run_id,
            job=call.job,
            attempt=attempt,
            launch=ledger.launch_details(lease_id) or {},
            heartbeat=heartbeat,
            started_at=datetime.fromisoformat(found[0].started_at),
            seconds=_attempt_seconds(store, found[0]),
        )
    )


def _attempt_seconds(store: ObjectStore, attempt: Attempt) -> AttemptSeconds:
    """What one attempt took, and how much of it was lost."""
    prefix = run_prefix(workload=attempt.dag_id, run_id=attempt.run_id)
    kind, _, item = attempt.job.partition(".")
    base = f"{prefix}/jobs/{job_name(kind=kind, item=item, attempt=attempt.number)}"
    usage = (store.get_json(f"{base}/heartbeat.json") or {}).get("usage") or {}
    seconds = float(usage.get("wall_s", 0.0))
    steps = store.get_json(f"{base}/steps.json")
    lost = _lost_seconds(steps, kind=kind, seconds=seconds)
    return AttemptSeconds(reason=attempt.reason or "open", seconds=seconds, lost_s=lost)


def _lost_seconds(steps: dict[str, Any] | None, *, kind: str, seconds: float) -> float | None:
    """Seconds after the last committed checkpoint: by the worker's own account; without one, all or unknown."""
    if kind != "train":
        return seconds
    if steps is None:
        return None
    executed = steps["last_executed_step"] - steps["resumed_step"]
    lost = steps["last_executed_step"] - max(steps["committed_step"], steps["resumed_step"])
    return float(steps["useful_s"]) * lost / executed if executed > 0 else 0.0
