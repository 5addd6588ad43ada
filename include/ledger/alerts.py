"""What people want to hear of at once: recorded by whoever acts, sent by whoever comes next.

An alert is an event of the ledger; that it went out over one channel is another one. So an alert is sent at least once
over each channel, and a channel that is down holds up no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from include.core.clock import iso

if TYPE_CHECKING:
    from include.ledger.ledger import Ledger

KINDS = ("interruption", "fallback_on_demand", "budget_80", "budget_reached", "quota_refused", "reaper")
# Most alerts that one look reads: more than that of one run, unsent, says nothing that the newest do not say.
_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One thing that happened.

    Attributes:
        id: Number of its event in the ledger.
        at: ISO time at which it was recorded.
        kind: One of `KINDS`.
        dag_id: DAG of the run it is about, empty where it is about no run.
        run_id: That run, empty where it is about no run.
        key: What makes it one of a kind within its run.
        message: One sentence for people.
    """

    id: int
    at: str
    kind: str
    dag_id: str
    run_id: str
    key: str
    message: str


def record_alert(ledger: Ledger, *, kind: str, dag_id: str, run_id: str, key: str, message: str) -> bool:
    """Record an alert, once per kind, run and key.

    Args:
        ledger: The ledger.
        kind: One of `KINDS`.
        dag_id: DAG of the run it is about, empty where it is about no run.
        run_id: That run, empty where it is about no run.
        key: What makes it one of a kind within its run, for example the lease that was interrupted.
        message: One sentence for people.

    Returns:
        True when this call wrote it.

    Raises:
        ValueError: There is no such kind.
    """
    if kind not in KINDS:
        raise ValueError(f"alert of kind {kind!r}, allowed: {', '.join(KINDS)}")
    body = {"kind": kind, "key": key, "message": message}
    unique = f"alert|{kind}|{dag_id}|{run_id}|{key}"
    return ledger.record("alert", dag_id=dag_id, run_id=run_id, body=body, key=unique)


def has_alert(ledger: Ledger, *, kind: str, dag_id: str, run_id: str, key: str) -> bool:
    """Whether this alert was recorded before."""
    found = ledger.events(dag_id=dag_id, run_id=run_id, kind="alert", limit=_MOST)
    return any((event.body["kind"], event.body["key"]) == (kind, key) for event in found)


def unsent_alerts(
    ledger: Ledger, *, channel: str, since: datetime, dag_id: str | None = None, run_id: str | None = None
) -> tuple[Alert, ...]:
    """Alerts that did not go out over a channel yet, oldest first.

    Args:
        ledger: The ledger.
        channel: Name of the channel.
        since: Older ones are let go: nobody acts on them any more.
        dag_id: Only those of this DAG.
        run_id: Only those of this run.
    """
    sent = {
        event.body["alert"]
        for event in ledger.events(dag_id=dag_id, run_id=run_id, kind="alert_sent", limit=_MOST * 4)
        if event.body["channel"] == channel
    }
    found = ledger.events(dag_id=dag_id, run_id=run_id, kind="alert", limit=_MOST)
    return tuple(
        Alert(
            id=event.id,
            at=event.at,
            kind=event.body["kind"],
            dag_id=event.dag_id or "",
            run_id=event.run_id or "",
            key=event.body["key"],
            message=event.body["message"],
        )
        for event in reversed(found)
        if event.id not in sent and event.at >= iso(since)
    )


def mark_sent(ledger: Ledger, alert: Alert, *, channel: str) -> bool:
    """Remember that an alert went out over a channel.

    Returns:
        True when this call wrote it.
    """
    body = {"alert": alert.id, "channel": channel}
    key = f"alert_sent|{alert.id}|{channel}"
    return ledger.record("alert_sent", dag_id=alert.dag_id, run_id=alert.run_id, body=body, key=key)
