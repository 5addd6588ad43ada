"""Capacity as a task shows it: what is waited for, what there is, and what never came up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from plimsoll.hooks.installation import Installation
from plimsoll.hooks.rented import Rented, rented

if TYPE_CHECKING:
    from include.compute.job_calls import Capacity, Delayed
    from include.ledger.ledger import LedgerEvent

_log = logging.getLogger(__name__)
XCOM_KEY = "capacity"
# A refusal names every type and zone; XCom is small.
_LONGEST, _MOST_SHOWN = 1000, 3
# Ends of leases whose machine never came up: the provider took it away, or nobody knows why.
FOUND_DEAD, NEVER_BEAT = "found dead", "never beat"
_NEVER_LAUNCHED = "no_capacity"


def show_delay(context: Any, installation: Installation, group_id: str, delayed: Delayed) -> dict[str, Any]:
    """Put into log and XCom what is waited for: the place in the queue, and what was tried."""
    from include.compute.capacity_choice.past import read_past

    ti = context["ti"]
    past = read_past(installation.ledger, group_id=group_id, dag_id=ti.dag_id, run_id=ti.run_id)
    tried = [refusal[:_LONGEST] for refusal in past.refusals[-_MOST_SHOWN:]]
    place = "" if delayed.position is None else f"place {delayed.position} in the queue of its team; "
    _log.warning(
        "run=%s waiting for capacity: %s%s; asked again in %.0f s%s",
        ti.run_id,
        place,
        delayed.reason,
        delayed.retry_after_s,
        "".join(f"\n  tried: {refusal}" for refusal in tried),
    )
    shown = {
        "state": "waiting",
        "reason": delayed.reason[:_LONGEST],
        "position": delayed.position,
        "retry_after_s": delayed.retry_after_s,
        "tried": tried,
    }
    ti.xcom_push(key=XCOM_KEY, value=shown)
    return shown


def show_lease(context: Any, installation: Installation, lease_id: str) -> Rented | None:
    """Put into XCom what a lease consists of, and give it back for the links of the task's page."""
    found = rented(installation, lease_id)
    shown = {"lease_id": lease_id} if found is None else found.to_xcom()
    context["ti"].xcom_push(key=XCOM_KEY, value={"state": "launched", **shown})
    return found


def boots_in_vain(installation: Installation, capacity: Capacity) -> int:
    """How many of the group's last leases in a row ended before their agent did anything, since it was opened."""
    ledger, dag_id, run_id = installation.ledger, capacity.dag_id, capacity.run_id

    def of_group(kind: str) -> list[LedgerEvent]:
        found = ledger.events(kind=kind, dag_id=dag_id, run_id=run_id)
        return [event for event in found if event.group_id == capacity.group_id]

    opened = max((event.id for event in of_group("reopened")), default=0)
    worked = {attempt.lease_id for attempt in ledger.attempts(dag_id=dag_id, run_id=run_id)}
    count = 0
    for event in of_group("ended"):  # the newest first
        if event.reason == _NEVER_LAUNCHED:
            continue
        if event.id < opened or event.lease_id in worked or event.reason not in (FOUND_DEAD, NEVER_BEAT):
            break
        count += 1
    return count
