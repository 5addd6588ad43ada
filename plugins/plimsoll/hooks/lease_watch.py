"""What a watch over a job is told of the rented lease under it: instances, time to come up, budget."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from include.config.run_record import RunRecord
from plimsoll.hooks.budget_watch import BudgetWatch
from plimsoll.hooks.capacity import capacity_of
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.rented import Rented


def budget_watch(run: RunRecord, group: str, lease_id: str, installation: Installation) -> BudgetWatch:
    """The budget of a run as one of its leases eats into it."""
    capacity = capacity_of(run, group, installation)
    return BudgetWatch(installation=installation, capacity=capacity, lease_id=lease_id)


def lease_terms(
    run: RunRecord, group: str, lease_id: str, installation: Installation, *, rented: Rented | None, boot_s: float
) -> dict[str, Any]:
    """Arguments of a `JobTrigger` that concern its lease.

    Args:
        run: Record of the run.
        group: Capacity group.
        lease_id: The lease.
        installation: Clients of this process.
        rented: Its instances, None on a machine of one's own.
        boot_s: Seconds from its launch in which a rented machine may come up.
    """
    spending = budget_watch(run, group, lease_id, installation)
    terms: dict[str, Any] = {"budget": spending.for_trigger(), "leave_by": spending.leave_by()}
    if rented is None:
        return terms
    return {
        **terms,
        "instances": rented.instances,
        "boot_s": boot_s,
        "boot_until": launched_at(installation, lease_id) + boot_s,
    }


def launched_at(installation: Installation, lease_id: str) -> float:
    """POSIX seconds of a lease's launch.

    Raises:
        LookupError: It was not launched.
    """
    record = installation.ledger.lease_record(lease_id)
    if record is None or record.launched_at is None:
        raise LookupError(f"lease {lease_id} was not launched")
    return datetime.fromisoformat(record.launched_at).timestamp()
