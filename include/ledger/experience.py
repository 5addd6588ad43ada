"""Interruptions and hours of rented capacity, from the attempts in the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from include.core.contracts.experience import Experience
from include.core.contracts.offer import PurchaseOption
from include.ledger.ledger import Ledger
from include.ledger.records import INTERRUPTIONS, LedgerEvent

# What nobody rented nobody takes back; interruption drills, which are no experience, are of this machine.
_RENTED = frozenset({PurchaseOption.SPOT, PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED})
_MOST_EVENTS = 20_000
_HOUR_S = 3600.0


def read_experience(ledger: Ledger) -> tuple[Experience, ...]:
    """What attempts on rented capacity have shown, by type and purchase option, in order of these.

    Args:
        ledger: The ledger; its newest attempts are read.
    """
    read = {kind: ledger.events(kind=kind, limit=_MOST_EVENTS) for kind in ("launched", "attempt", "attempt_ended")}
    return experience_of(launched=read["launched"], begun=read["attempt"], ended=read["attempt_ended"])


def experience_of(
    *, launched: Iterable[LedgerEvent], begun: Iterable[LedgerEvent], ended: Iterable[LedgerEvent]
) -> tuple[Experience, ...]:
    """Experience from events of three kinds. Pure.

    Args:
        launched: Launches, whose details say what was launched.
        begun: Beginnings of attempts.
        ended: Their ends; an attempt that has not ended counts for nothing.
    """
    kinds = {event.lease_id: _kind(event.body) for event in launched}
    starts = {_attempt(event): event for event in begun}
    totals: dict[tuple[str, str], tuple[int, float]] = {}
    for event in ended:
        start, kind = starts.get(_attempt(event)), kinds.get(event.lease_id)
        if start is None or kind is None:
            continue
        interruptions, hours = totals.get(kind, (0, 0.0))
        ran_h = (datetime.fromisoformat(event.at) - datetime.fromisoformat(start.at)).total_seconds() / _HOUR_S
        totals[kind] = interruptions + (event.reason in INTERRUPTIONS), hours + max(0.0, ran_h)
    return tuple(
        Experience(instance_type=name, purchase=purchase, interruptions=interruptions, hours=hours)
        for (name, purchase), (interruptions, hours) in sorted(totals.items())
    )


def _attempt(event: LedgerEvent) -> tuple[str | None, str | None, str | None, int | None]:
    return event.dag_id, event.run_id, event.job, event.attempt


def _kind(details: dict[str, Any]) -> tuple[str, str] | None:
    """Type and purchase option of a launch, None for a machine of one's own or a launch of an older form."""
    name, purchase = details.get("instance_type"), details.get("purchase")
    return (str(name), str(purchase)) if name and purchase in _RENTED else None
