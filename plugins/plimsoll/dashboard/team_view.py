"""Quotas as the dashboard shows them: what each team holds of what it may hold, and who waits, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from include.config.quota_file import Limits, Quotas
    from include.config.settings import Settings
    from include.ledger.ledger import Ledger
    from include.ledger.records import QueueEntry, TeamUse


def team_view(ledger: Ledger, settings: Settings) -> dict[str, Any]:
    """All teams that hold, wait or are named in the quota file; a file with mistakes is told, not hidden."""
    from include.config.quota_file import Quotas, load_quotas
    from include.core.errors import UserError
    from include.ledger.records import TeamUse

    mistake = None
    try:
        quotas = load_quotas(settings)
    except UserError as error:
        quotas, mistake = Quotas(), str(error)
    waiting = ledger.queue()
    uses = {use.team: use for use in ledger.team_uses()}
    names = sorted({*quotas, *uses, *(entry.team for entry in waiting)})
    return {
        "mistake": mistake,
        "month": next((use.month for use in uses.values()), None),
        "teams": [_team(name, uses.get(name, TeamUse(team=name)), quotas) for name in names],
        "total": _limits(quotas.total),
        "queue": [queue_row(entry, position) for position, entry in enumerate(waiting, 1)],
    }


def _team(name: str, use: TeamUse, quotas: Quotas) -> dict[str, Any]:
    quota = quotas.get(name)
    return {
        "team": name,
        "leases": use.leases,
        "gpus": use.gpus,
        "usd_per_h": float(use.usd_per_h),
        "spent_usd": float(use.spent_usd),
        "promised_usd": float(use.promised_usd),
        "priority": None if quota is None else quota.priority,
        "quota": _limits(quota),
    }


def _limits(limits: Limits | None) -> dict[str, float | None] | None:
    if limits is None:
        return None
    return {
        "gpus": limits.gpus,
        "usd_per_h": None if limits.usd_per_h is None else float(limits.usd_per_h),
        "usd_per_month": None if limits.usd_per_month is None else float(limits.usd_per_month),
    }


def queue_row(entry: QueueEntry, position: int) -> dict[str, Any]:
    """One that waits.

    Args:
        entry: What the ledger knows of it.
        position: Its place among all that wait, from 1.
    """
    return {
        "position": position,
        "team": entry.team,
        "dag_id": entry.dag_id,
        "run_id": entry.run_id,
        "priority": entry.priority,
        "gpus": entry.gpus,
        "usd_per_h": None if entry.usd_per_h is None else float(entry.usd_per_h),
        "since": entry.since,
        "asked_at": entry.asked_at,
    }


def places_of_run(ledger: Ledger, *, dag_id: str, run_id: str) -> list[dict[str, Any]]:
    """Where the leases of a run wait; empty for a run that waits for nothing."""
    rows = [queue_row(entry, position) for position, entry in enumerate(ledger.queue(), 1)]
    return [row for row in rows if (row["dag_id"], row["run_id"]) == (dag_id, run_id)]
