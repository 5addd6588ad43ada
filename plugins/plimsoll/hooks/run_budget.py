"""The budget of a run: that of its order, or what a person raised it to since."""

from __future__ import annotations

from decimal import Decimal

from include.config.run_record import RunRecord
from plimsoll.hooks.installation import Installation


def run_budget(run: RunRecord, installation: Installation) -> Decimal | None:
    """What a run may spend in all, None without a limit."""
    from include.ledger.budget import budget_of

    ordered = run.workload.limits.budget_usd
    return budget_of(
        installation.ledger,
        dag_id=run.dag_id,
        run_id=run.run_id,
        ordered=None if ordered is None else Decimal(str(ordered)),
    )
