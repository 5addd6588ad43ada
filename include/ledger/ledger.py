"""The ledger: append-only events of leases, attempts, costs and predictions; also the lock table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, insert, select

from include.core.clock import iso
from include.ledger.attempts import AttemptBook
from include.ledger.chargebook import ChargeBook
from include.ledger.leases import LeaseBook
from include.ledger.quota_book import QuotaBook
from include.ledger.records import (
    Attempt,
    Intent,
    IntentLimits,
    LeaseRecord,
    LedgerEvent,
    OpenLease,
    QueueEntry,
    TeamUse,
)
from include.ledger.schema import events, locks

__all__ = [
    "Attempt",
    "Intent",
    "IntentLimits",
    "LeaseRecord",
    "Ledger",
    "LedgerEvent",
    "OpenLease",
    "QueueEntry",
    "TeamUse",
]

_OWN_KINDS = ("intent", "launched", "ended", "closed", "reopened", "attempt", "attempt_ended")
_EVENT_COLUMNS = tuple(column for column in events.c if column.name != "idempotency_key")


class Ledger(LeaseBook, QuotaBook, AttemptBook, ChargeBook):
    """The whole ledger. Operators, teardown and reaper write; triggers and jobs never do.

    Every method is one transaction. The schema must be there: see `include.ledger.migrate.migrate`.
    """

    def record(
        self,
        kind: str,
        *,
        dag_id: str,
        run_id: str,
        body: dict[str, Any],
        key: str | None = None,
        job: str | None = None,
        group_id: str | None = None,
        lease_id: str | None = None,
    ) -> bool:
        """Append an event of a kind that only people and reports read: predictions, savings, outcomes.

        Args:
            kind: Name of the kind.
            dag_id: DAG of the run.
            run_id: The run.
            body: JSON value.
            key: Writing the same key again changes nothing; None always appends.
            job: Job it is about.
            group_id: Group it is about.
            lease_id: Lease it is about.

        Returns:
            True when this call wrote it.

        Raises:
            ValueError: The kind belongs to the ledger itself.
        """
        if kind in _OWN_KINDS:
            raise ValueError(f"events of kind {kind} have their own method")
        with self._transaction() as conn:
            if key is not None and conn.scalar(select(events.c.id).where(events.c.idempotency_key == key)) is not None:
                return False
            names = {"dag_id": dag_id, "run_id": run_id, "job": job, "group_id": group_id, "lease_id": lease_id}
            self._write(conn, kind, idempotency_key=key, body=body, **names)
            return True

    def events(
        self, *, dag_id: str | None = None, run_id: str | None = None, kind: str | None = None, limit: int = 200
    ) -> tuple[LedgerEvent, ...]:
        """The newest events, newest first, of one DAG, run or kind where given."""
        query = select(*_EVENT_COLUMNS).order_by(events.c.id.desc()).limit(limit)
        for column, value in ((events.c.dag_id, dag_id), (events.c.run_id, run_id), (events.c.kind, kind)):
            if value is not None:
                query = query.where(column == value)
        with self._transaction() as conn:
            return tuple(LedgerEvent(**row) for row in conn.execute(query).mappings())

    def acquire_lock(self, name: str, owner: str, ttl_s: float) -> bool:
        """Take a lock, or extend the own one; an expired lock of somebody else is taken over.

        Args:
            name: What is locked.
            owner: Who locks; unique per holder.
            ttl_s: Seconds after which the lock is free again, whatever happened to its owner.

        Returns:
            False while somebody else holds it.
        """
        now = self._clock.now()
        with self._transaction() as conn:
            row = conn.execute(select(locks.c.owner, locks.c.expires_at).where(locks.c.name == name)).first()
            if row is not None and row.owner != owner and datetime.fromisoformat(row.expires_at) > now:
                return False
            conn.execute(delete(locks).where(locks.c.name == name))
            expires_at = iso(now + timedelta(seconds=ttl_s))
            conn.execute(insert(locks).values(name=name, owner=owner, expires_at=expires_at))
            return True

    def release_lock(self, name: str, owner: str) -> bool:
        """Give a lock back.

        Returns:
            False when it was no longer the owner's.
        """
        with self._transaction() as conn:
            return conn.execute(delete(locks).where(locks.c.name == name, locks.c.owner == owner)).rowcount > 0
