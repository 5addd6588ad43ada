"""The part of the ledger that says which leases may exist: intents, launches, ends, closed groups."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, insert, or_, select, update

from include.core.clock import iso
from include.core.errors import BudgetExceededError, GroupClosedError, QueuedError
from include.core.ids import lease_id as make_lease_id
from include.ledger.book import Book
from include.ledger.chargebook import spent_usd
from include.ledger.quota_book import check_quota, leave_queue
from include.ledger.records import Intent, IntentLimits, LeaseRecord, OpenLease
from include.ledger.schema import events, groups, is_kind, is_open_intent

_PAID_GROUPS = ("train-", "work-")


class LeaseBook(Book):
    """Leases and their groups."""

    def intent(
        self,
        *,
        group_id: str,
        dag_id: str,
        run_id: str,
        reopen: bool = False,
        limits: IntentLimits | None = None,
        details: dict[str, Any] | None = None,
    ) -> Intent:
        """Ask for a lease, before the call that spends. One transaction decides and records.

        The group's open lease is returned as it is; else the generation grows by one. Where a quota of the team is used
        up, the group takes a place in the queue, which it keeps by asking again.

        Args:
            group_id: The capacity group.
            dag_id: DAG of the run that asks.
            run_id: The run that asks.
            reopen: Reopen a closed group; only the setup task may say so.
            limits: Quotas and budget, checked before anything is written; an open lease passes unchecked.
            details: Whatever explains the intent, as JSON.

        Raises:
            GroupClosedError: The group was released and ``reopen`` is not set.
            BudgetExceededError: The lease would exceed a limit, and no waiting helps; nothing was written.
            QueuedError: A quota is used up; the group is open and waits its turn.
        """
        names: dict[str, Any] = {"group_id": group_id, "dag_id": dag_id, "run_id": run_id}
        limits = limits or IntentLimits()
        try:
            with self._transaction() as conn:
                decided = self._decide(conn, names, limits=limits, reopen=reopen, details=details)
        except BudgetExceededError:
            self._give_up_place(group_id)
            raise
        if isinstance(decided, QueuedError):
            raise decided
        return decided

    def _decide(
        self,
        conn: Connection,
        names: dict[str, Any],
        *,
        limits: IntentLimits,
        reopen: bool,
        details: dict[str, Any] | None,
    ) -> Intent | QueuedError:
        group_id = str(names["group_id"])
        generation, closed = _group_state(conn, **names)
        if closed and not reopen:
            raise GroupClosedError(f"group {group_id} was released; only a new launch may reopen it")
        if closed:
            self._write(conn, "reopened", generation=generation, **names)
            _set_group(conn, group_id, closed=False)
        open_lease = _open_lease(conn, group_id)
        if open_lease is not None:
            return Intent(lease_id=open_lease, generation=generation, created=False)
        _check_limits(conn, limits, dag_id=names["dag_id"], run_id=names["run_id"])
        queued = check_quota(conn, limits, now=self._clock.now(), **names)
        if queued is not None:
            return queued
        generation += 1
        lease_id = make_lease_id(group_id=group_id, generation=generation)
        body = {**(details or {}), **_held(limits)}
        self._write(conn, "intent", lease_id=lease_id, generation=generation, body=body, **names)
        _set_group(conn, group_id, generation=generation)
        return Intent(lease_id=lease_id, generation=generation, created=True)

    def _give_up_place(self, group_id: str) -> None:
        """What is refused for good must not stand in the way of those who wait behind it."""
        with self._transaction() as conn:
            leave_queue(conn, group_id)

    def launched(self, *, group_id: str, lease_id: str, details: dict[str, Any] | None = None) -> bool:
        """Record that the launch call was made; repeating it changes nothing.

        Returns:
            True when this call wrote it.

        Raises:
            LookupError: There is no intent for the lease.
        """
        with self._transaction() as conn:
            if _has(conn, "launched", lease_id):
                return False
            names = _names_of(conn, lease_id)
            if names is None:
                raise LookupError(f"lease {lease_id} of group {group_id} was launched without an intent")
            self._write(conn, "launched", group_id=group_id, lease_id=lease_id, body=details, **names)
            return True

    def ended(self, *, group_id: str, lease_id: str, reason: str, details: dict[str, Any] | None = None) -> bool:
        """Record that a lease is gone for good; repeating it changes nothing, and the first reason stays.

        Returns:
            True when this call wrote it.
        """
        with self._transaction() as conn:
            if _has(conn, "ended", lease_id):
                return False
            # A lease that the reaper found by its tag may have no intent in this ledger.
            names = _names_of(conn, lease_id) or {}
            self._write(conn, "ended", group_id=group_id, lease_id=lease_id, reason=reason, body=details, **names)
            return True

    def close(self, group_id: str, *, dag_id: str, run_id: str) -> bool:
        """Forbid further leases of the group: the first thing a release does.

        Returns:
            True when this call closed it.
        """
        with self._transaction() as conn:
            generation, closed = _group_state(conn, group_id, dag_id=dag_id, run_id=run_id)
            if closed:
                return False
            self._write(conn, "closed", group_id=group_id, dag_id=dag_id, run_id=run_id, generation=generation)
            _set_group(conn, group_id, closed=True)
            leave_queue(conn, group_id)
            return True

    def reopen(self, group_id: str) -> bool:
        """Allow leases of a closed group again; only the setup task may say so.

        Returns:
            True when this call reopened it; False for a group that is open, or that nobody knows yet.
        """
        with self._transaction() as conn:
            row = conn.execute(select(groups).where(groups.c.group_id == group_id, groups.c.closed)).mappings().first()
            if row is None:
                return False
            names = {name: row[name] for name in ("group_id", "dag_id", "run_id", "generation")}
            self._write(conn, "reopened", **names)
            _set_group(conn, group_id, closed=False)
            return True

    def is_closed(self, group_id: str) -> bool:
        """Whether the group was released and not reopened since."""
        with self._transaction() as conn:
            return bool(conn.scalar(select(groups.c.closed).where(groups.c.group_id == group_id)))

    def leases(self, group_id: str) -> tuple[str, ...]:
        """All leases the group ever had, oldest first."""
        query = select(events.c.lease_id).where(is_kind("intent"), events.c.group_id == group_id)
        with self._transaction() as conn:
            return tuple(conn.scalars(query.order_by(events.c.generation)))

    def open_lease(self, group_id: str) -> str | None:
        """The group's lease that has an intent and no end."""
        with self._transaction() as conn:
            return _open_lease(conn, group_id)

    def open_leases(self) -> tuple[OpenLease, ...]:
        """All leases of this installation that have an intent and no end, oldest first."""
        columns = (events.c.lease_id, events.c.group_id, events.c.dag_id, events.c.run_id, events.c.at.label("since"))
        query = select(*columns).where(is_open_intent()).order_by(events.c.id)
        with self._transaction() as conn:
            return tuple(OpenLease(**row) for row in conn.execute(query).mappings())

    def ended_leases(self, *, before: datetime) -> tuple[str, ...]:
        """Leases whose end was recorded before that time, oldest first: their control files serve nobody any more."""
        query = select(events.c.lease_id).where(is_kind("ended"), events.c.at < iso(before)).order_by(events.c.id)
        with self._transaction() as conn:
            return tuple(conn.scalars(query))

    def launch_details(self, lease_id: str) -> dict[str, Any] | None:
        """What was recorded at the launch, None for a lease that was not launched."""
        query = select(events.c.body).where(is_kind("launched"), events.c.lease_id == lease_id)
        with self._transaction() as conn:
            return conn.scalar(query)

    def lease_record(self, lease_id: str) -> LeaseRecord | None:
        """Who owns a lease and when it lived, None for a lease without an intent."""
        query = select(events).where(events.c.lease_id == lease_id, events.c.kind.in_(("intent", "launched", "ended")))
        with self._transaction() as conn:
            rows = {row.kind: row for row in conn.execute(query)}
        intent, launched, ended = (rows.get(kind) for kind in ("intent", "launched", "ended"))
        if intent is None:
            return None
        return LeaseRecord(
            lease_id=lease_id,
            group_id=intent.group_id,
            dag_id=intent.dag_id,
            run_id=intent.run_id,
            launched_at=launched.at if launched else None,
            ended_at=ended.at if ended else None,
            details=launched.body if launched else {},
        )


def _open_lease(conn: Connection, group_id: str) -> str | None:
    return conn.scalar(select(events.c.lease_id).where(is_open_intent(), events.c.group_id == group_id))


def _has(conn: Connection, kind: str, lease_id: str) -> bool:
    return conn.scalar(select(events.c.id).where(is_kind(kind), events.c.lease_id == lease_id)) is not None


def _names_of(conn: Connection, lease_id: str) -> dict[str, Any] | None:
    columns = (events.c.dag_id, events.c.run_id, events.c.generation)
    row = conn.execute(select(*columns).where(is_kind("intent"), events.c.lease_id == lease_id)).mappings()
    found = row.first()
    return None if found is None else dict(found)


def _group_state(conn: Connection, group_id: str, *, dag_id: str, run_id: str) -> tuple[int, bool]:
    row = conn.execute(select(groups.c.generation, groups.c.closed).where(groups.c.group_id == group_id)).first()
    if row is not None:
        return int(row.generation), bool(row.closed)
    names = {"group_id": group_id, "dag_id": dag_id, "run_id": run_id}
    conn.execute(insert(groups).values(generation=0, closed=False, **names))
    return 0, False


def _set_group(conn: Connection, group_id: str, **values: Any) -> None:  # noqa: ANN401 - columns of several types
    conn.execute(update(groups).where(groups.c.group_id == group_id).values(**values))


def _held(limits: IntentLimits) -> dict[str, Any]:
    """What an intent says of its lease, so that later ones can count it."""
    body: dict[str, Any] = {"commit_usd": _plain(limits.commit_usd)}
    if limits.team:
        body |= {"team": limits.team, "gpus": limits.gpus, "usd_per_h": _plain(limits.usd_per_h)}
    return body


def _plain(usd: Decimal | None) -> str | None:
    return None if usd is None else format(usd, "f")


def _check_limits(conn: Connection, limits: IntentLimits, *, dag_id: str, run_id: str) -> None:
    if limits.quota_leases is not None:
        paid = or_(*(events.c.group_id.startswith(prefix) for prefix in _PAID_GROUPS))
        count = conn.scalar(select(func.count()).where(is_open_intent(), paid)) or 0
        if count + 1 > limits.quota_leases:
            raise BudgetExceededError(
                "lease quota exceeded",
                where=f"{dag_id} {run_id}",
                found=f"{count} open train and work leases and one more asked for",
                allowed=f"{limits.quota_leases} at once",
                todo="wait for another run to end, or raise PLIMSOLL_QUOTA_LEASES",
            )
    if limits.budget_usd is not None:
        _check_budget(conn, limits, dag_id=dag_id, run_id=run_id)


def _check_budget(conn: Connection, limits: IntentLimits, *, dag_id: str, run_id: str) -> None:
    assert limits.budget_usd is not None
    spent = spent_usd(conn, dag_id=dag_id, run_id=run_id)
    query = select(events.c.body).where(is_open_intent(), events.c.dag_id == dag_id, events.c.run_id == run_id)
    promised = sum((Decimal(body["commit_usd"] or 0) for body in conn.scalars(query)), Decimal(0))
    asked = limits.commit_usd or Decimal(0)
    if spent + promised + asked > limits.budget_usd:
        raise BudgetExceededError(
            "budget exceeded",
            where=f"{dag_id} {run_id}",
            found=f"{spent} USD spent, {promised} USD promised to open leases, {asked} USD asked for",
            allowed=f"{limits.budget_usd} USD",
            todo="raise limits.budget_usd of the workload or the run, or choose a cheaper plan",
        )
