"""What the dashboard shows, from the ledger and the store, as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from include.core.errors import PlimsollError
from include.core.ids import run_prefix
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.records import Attempt
from plimsoll.dashboard.plan_view import plan_view
from plimsoll.dashboard.team_view import places_of_run

_LATEST = 25


def recent_runs(ledger: Ledger) -> list[dict[str, Any]]:
    """The latest runs with their totals, newest first."""
    runs: dict[tuple[str, str], str] = {}
    for event in ledger.events(kind="attempt", limit=2000):
        if event.dag_id and event.run_id:
            runs[event.dag_id, event.run_id] = event.at
    open_leases = ledger.open_leases()
    return [
        {
            "dag_id": dag_id,
            "run_id": run_id,
            "since": since,
            "totals": to_json(ledger.totals(dag_id=dag_id, run_id=run_id)),
            "open_leases": sum(lease.run_id == run_id and lease.dag_id == dag_id for lease in open_leases),
        }
        for (dag_id, run_id), since in list(runs.items())[:_LATEST]
    ]


def run_view(*, store: ObjectStore, ledger: Ledger, dag_id: str, run_id: str) -> dict[str, Any]:
    """Everything about one run; what is not there yet is null."""
    prefix = run_prefix(workload=dag_id, run_id=run_id)
    attempts = ledger.attempts(dag_id=dag_id, run_id=run_id)
    return {
        "dag_id": dag_id,
        "run_id": run_id,
        "plan": plan_view(_document(store, f"{prefix}/plan.json")),
        "verdict": _document(store, f"{prefix}/selection/verdict.json"),
        "report": _document(store, f"{prefix}/report.json"),
        "learned": _document(store, f"{prefix}/learned.json"),
        "totals": to_json(ledger.totals(dag_id=dag_id, run_id=run_id)),
        "training": _training(store, prefix, attempts),
        "interruptions": ledger.preemptions(dag_id=dag_id, run_id=run_id, job="train"),
        "leases": _leases(ledger, dag_id, run_id),
        "waits": places_of_run(ledger, dag_id=dag_id, run_id=run_id),
        "attempts": [
            {"job": a.job, "attempt": a.number, "lease_id": a.lease_id, "reason": a.reason, "since": a.started_at}
            for a in attempts
        ],
    }


def _training(store: ObjectStore, prefix: str, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """Verdict over the newest attempt of the training that left telemetry, and what was measured for it."""
    for attempt in sorted((a for a in attempts if a.job == "train"), key=lambda a: -a.number):
        found = _document(store, f"{prefix}/jobs/train-{attempt.number}/telemetry.json")
        if isinstance(found, dict) and found.get("ranks"):
            steps = found["ranks"][0].get("steps") or {}
            return {
                "attempt": attempt.number,
                "diagnosis": found.get("diagnosis"),
                "sources": found["ranks"][0].get("sources"),
                "step_p50_s": steps.get("step_p50_s"),
                "step_p95_s": steps.get("step_p95_s"),
                "traces": found.get("traces", []),
            }
    return None


def _leases(ledger: Ledger, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    events = ledger.events(dag_id=dag_id, run_id=run_id, limit=1000)
    ended = {event.lease_id: event.reason for event in events if event.kind == "ended"}
    opened = [event.lease_id for event in reversed(events) if event.kind == "intent"]
    return [{"lease_id": lease, "open": lease not in ended, "reason": ended.get(lease)} for lease in opened]


def _document(store: ObjectStore, key: str) -> Any:
    try:
        return store.get_json(key)
    except (PlimsollError, ValueError):
        # A damaged document is shown as absent; the task that wrote it says what is wrong.
        return None
