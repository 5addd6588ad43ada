"""That a run was cancelled is an event of its ledger: what comes too late, as a task that is tried again, must know."""

from __future__ import annotations

from datetime import datetime

from include.ledger.ledger import Ledger

KIND = "cancelled"


def mark_cancelled(ledger: Ledger, *, dag_id: str, run_id: str) -> None:
    """Write down that a run was cancelled now; each time anew, since a run may be cleared and cancelled again."""
    ledger.record(KIND, dag_id=dag_id, run_id=run_id, body={})


def was_cancelled(ledger: Ledger, *, dag_id: str, run_id: str, since: datetime | None) -> bool:
    """Whether a run was cancelled after it began.

    Args:
        ledger: The ledger.
        dag_id: DAG of the run.
        run_id: The run.
        since: When Airflow began the run; a run that is cleared begins anew and may go on. None: ever.
    """
    newest = ledger.events(dag_id=dag_id, run_id=run_id, kind=KIND, limit=1)
    return bool(newest) and (since is None or datetime.fromisoformat(newest[0].at) > since)
