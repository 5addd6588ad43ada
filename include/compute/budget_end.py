"""The error of a run that has spent its budget: what was spent, what is safe, and how to go on."""

from __future__ import annotations

from include.compute.capacity_choice.progress import read_progress
from include.compute.job_calls import Capacity, JobCall
from include.core.errors import BudgetExceededError
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger


def budget_error(store: ObjectStore, ledger: Ledger, call: JobCall, capacity: Capacity) -> BudgetExceededError:
    """One line for the task that fails."""
    names = {"dag_id": call.dag_id, "run_id": call.run_id}
    spent = ledger.totals(**names).known_part.usd
    progress = read_progress(store, ledger, job=call.job, **names)
    safe = "no step is committed yet"
    if progress.step:
        safe = f"committed up to step {progress.step} of {progress.total}"
    limit = "its lease's limit" if capacity.budget_usd is None else f"{capacity.budget_usd} USD"
    return BudgetExceededError(
        "the budget is spent; the capacity was given back",
        where=f"{call.dag_id} {call.run_id} {call.job}",
        found=f"{spent:.4f} USD spent, {safe}",
        allowed=limit,
        todo=f"make raise-budget RUN={call.dag_id}/{call.run_id} USD=<more>, then clear the task: it resumes there",
    )
