"""The budget of a run: that of its order, or what it was raised to since. An order is never written anew for it."""

from __future__ import annotations

from decimal import Decimal

from include.core.errors import UserError
from include.ledger.ledger import Ledger

RAISED = "budget_raised"
_MOST = 200


def budget_of(ledger: Ledger, *, dag_id: str, run_id: str, ordered: Decimal | None) -> Decimal | None:
    """What a run may spend in all.

    Args:
        ledger: The ledger.
        dag_id: DAG of the run.
        run_id: The run.
        ordered: Budget of its order, None for no limit.
    """
    if ordered is None:
        return None
    events = ledger.events(dag_id=dag_id, run_id=run_id, kind=RAISED, limit=_MOST)
    return max((Decimal(event.body["usd"]) for event in events), default=ordered).max(ordered)


def raise_budget(ledger: Ledger, *, dag_id: str, run_id: str, ordered: Decimal | None, usd: Decimal) -> Decimal:
    """Raise the budget of a run; the next launch reads it.

    Args:
        ledger: The ledger.
        dag_id: DAG of the run.
        run_id: The run.
        ordered: Budget of its order.
        usd: What it may spend in all from now on.

    Returns:
        The budget before.

    Raises:
        UserError: The run has no budget, or one that is as high.
    """
    before = budget_of(ledger, dag_id=dag_id, run_id=run_id, ordered=ordered)
    where = f"{dag_id} {run_id}"
    if before is None:
        raise UserError("the run has no budget, so there is nothing to raise", where=where)
    if usd <= before:
        raise UserError(
            "a budget can only be raised", where=where, found=f"{usd} USD", allowed=f"more than {before} USD"
        )
    body = {"usd": format(usd, "f"), "before": format(before, "f")}
    ledger.record(RAISED, dag_id=dag_id, run_id=run_id, body=body)
    return before
