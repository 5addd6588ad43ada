"""How much of a job is safe in a checkpoint, from the documents of its attempts."""

from __future__ import annotations

from dataclasses import dataclass

from include.core.ids import job_name, run_prefix
from include.core.store import ObjectStore
from include.ledger.ledger import Attempt, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a job over all its attempts.

    Attributes:
        done: Share that is safe, 0..1.
        step: Last step that is safe, None where no attempt has told.
        total: Steps in all, None where no attempt has told.
    """

    done: float = 0.0
    step: int | None = None
    total: int | None = None


def read_progress(store: ObjectStore, ledger: Ledger, *, dag_id: str, run_id: str, job: str) -> Progress:
    """The furthest that any attempt has come; what is not known to be safe counts as not done."""
    best = Progress()
    for attempt in ledger.attempts(dag_id=dag_id, run_id=run_id):
        if attempt.job == job:
            found = _of(store, attempt)
            best = max(best, found, key=lambda progress: progress.done)
    return best


def _of(store: ObjectStore, attempt: Attempt) -> Progress:
    kind, _, item = attempt.job.partition(".")
    prefix = run_prefix(workload=attempt.dag_id, run_id=attempt.run_id)
    base = f"{prefix}/jobs/{job_name(kind=kind, item=item, attempt=attempt.number)}"
    shown = (store.get_json(f"{base}/heartbeat.json") or {}).get("progress") or {}
    steps = store.get_json(f"{base}/steps.json") or {}
    total, safe = shown.get("total"), steps.get("committed_step")
    if not isinstance(total, int) or total <= 0 or not isinstance(safe, int):
        return Progress()
    safe = max(safe, int(steps.get("resumed_step", 0)), 0)
    return Progress(done=min(safe / total, 1.0), step=safe, total=total)
