"""What people hear of capacity: the alerts that the driver records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.compute.capacity_choice.past import read_past
from include.compute.job_calls import Capacity
from include.core.contracts.offer import PurchaseOption
from include.core.errors import UserError
from include.ledger.alerts import record_alert
from include.ledger.ledger import Ledger


def tell_launch(ledger: Ledger, capacity: Capacity, *, lease_id: str, details: Mapping[str, Any]) -> None:
    """Say that the rest runs on demand, where an earlier lease of the group was on spot."""
    if capacity.shared or details.get("purchase") != PurchaseOption.ON_DEMAND.value:
        return
    past = read_past(ledger, group_id=capacity.group_id, dag_id=capacity.dag_id, run_id=capacity.run_id)
    if any(event.purchase == PurchaseOption.SPOT.value for event in past.events):
        message = f"no spot capacity: {details.get('instance_type')} on demand at {details.get('usd_per_h')} USD/h"
        _record(ledger, capacity, "fallback_on_demand", key=lease_id, message=message)


def tell_refusal(ledger: Ledger, capacity: Capacity, error: UserError) -> None:
    """Say that a launch was refused for good."""
    _record(ledger, capacity, "quota_refused", key=f"{capacity.group_id}|{str(error)[:80]}", message=str(error))


def tell_interruption(ledger: Ledger, capacity: Capacity, *, lease_id: str, message: str) -> None:
    """Say that capacity went away under a job."""
    _record(ledger, capacity, "interruption", key=lease_id, message=message)


def tell_budget(ledger: Ledger, capacity: Capacity, *, lease_id: str, message: str) -> None:
    """Say that a lease has spent what the run may spend."""
    _record(ledger, capacity, "budget_reached", key=lease_id, message=message)


def _record(ledger: Ledger, capacity: Capacity, kind: str, *, key: str, message: str) -> None:
    if not capacity.shared:
        record_alert(ledger, kind=kind, dag_id=capacity.dag_id, run_id=capacity.run_id, key=key, message=message)
