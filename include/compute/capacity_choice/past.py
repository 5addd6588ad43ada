"""What a capacity group has met so far, read from the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from include.compute.capacity_choice.question import PoolEvent
from include.ledger.ledger import Ledger, LedgerEvent

NO_CAPACITY = "no_capacity"
# Ends of a lease that say: the capacity went away.
LOSSES = ("lost", "preempted", "found dead", "never beat")
# A group that was refused more often than this has waited longer than anybody lets it.
_MOST_EVENTS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPast:
    """The past of one group.

    Attributes:
        events: What was seen of its capacity, oldest first.
        first_s: POSIX seconds of its first intent, None before it.
        refused_since_s: POSIX seconds of the first refusal since the last launch, or since the group was reopened; None
            where there is none.
        refusals: Refusals since then, for people: what was tried and what it met, each once.
    """

    events: tuple[PoolEvent, ...] = ()
    first_s: float | None = None
    refused_since_s: float | None = None
    refusals: tuple[str, ...] = ()


def read_past(ledger: Ledger, *, group_id: str, dag_id: str, run_id: str) -> GroupPast:
    """Read the past of a group."""
    found = [
        event
        for kind in ("intent", "launched", "ended", "reopened", NO_CAPACITY)
        for event in ledger.events(dag_id=dag_id, run_id=run_id, kind=kind, limit=_MOST_EVENTS)
        if event.group_id == group_id
    ]
    return past_of(sorted(found, key=lambda event: event.id))


def past_of(events: Iterable[LedgerEvent]) -> GroupPast:
    """The past from the group's events, oldest first. Pure."""
    seen: list[PoolEvent] = []
    launched: dict[str | None, LedgerEvent] = {}
    first_s: float | None = None
    refusals: list[LedgerEvent] = []
    for event in events:
        if event.kind == "intent" and first_s is None:
            first_s = _seconds(event)
        elif event.kind == "launched":
            launched[event.lease_id], refusals = event, []
            seen.append(_event(event, "had", event.body))
        elif event.kind == "ended" and event.lease_id in launched:
            what = "lost" if event.reason in LOSSES else "left"
            seen.append(_event(event, what, launched[event.lease_id].body))
        elif event.kind == "reopened":
            # A person has cleared the launch: the wait begins anew.
            refusals = []
        elif event.kind == NO_CAPACITY:
            refusals.append(event)
            seen += [_event(event, "refused", tried) for tried in event.body.get("tried", [])]
    return GroupPast(
        events=tuple(seen),
        first_s=first_s,
        refused_since_s=_seconds(refusals[0]) if refusals else None,
        refusals=tuple(dict.fromkeys(str(event.body.get("error", "")) for event in refusals)),
    )


def _seconds(event: LedgerEvent) -> float:
    return datetime.fromisoformat(event.at).timestamp()


def _event(event: LedgerEvent, what: str, pool: dict[str, object]) -> PoolEvent:
    assert what in {"had", "lost", "refused", "left"}
    zone = pool.get("zone")
    return PoolEvent(
        at_s=_seconds(event),
        what=what,  # type: ignore[arg-type] # one of the four, see the line above
        instance_type=str(pool.get("instance_type", "")),
        purchase=str(pool.get("purchase", "")),
        region=str(pool.get("region", "")),
        zone=None if not zone else str(zone),
    )
