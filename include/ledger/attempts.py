"""The part of the ledger that numbers the attempts of jobs.

Attempts are keyed by (dag, run, job), not by group: the control lease is shared by all runs.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from include.core.errors import GroupClosedError
from include.ledger.book import Book
from include.ledger.records import INTERRUPTIONS, Attempt
from include.ledger.schema import events, groups, is_kind


class AttemptBook(Book):
    """Attempts of jobs."""

    def begin_attempt(
        self,
        *,
        group_id: str,
        job: str,
        lease_id: str,
        dag_id: str,
        run_id: str,
        details: dict[str, Any] | None = None,
    ) -> int:
        """Open the next attempt of a job, or return the number of the one that is open already.

        Raises:
            GroupClosedError: The group was released meanwhile; an attempt opened now would never be ended.
        """
        with self._transaction() as conn:
            last = _last(conn, dag_id=dag_id, run_id=run_id, job=job)
            if last is not None and last.ended_at is None:
                return last.number
            if conn.scalar(select(groups.c.closed).where(groups.c.group_id == group_id)):
                raise GroupClosedError(f"group {group_id} was released; no attempt of {job} may begin on it")
            number = 1 if last is None else last.number + 1
            names = {"dag_id": dag_id, "run_id": run_id, "job": job, "group_id": group_id, "lease_id": lease_id}
            self._write(conn, "attempt", attempt=number, body=details, **names)
            return number

    def end_attempt(
        self, *, dag_id: str, run_id: str, job: str, attempt: int, reason: str, details: dict[str, Any] | None = None
    ) -> bool:
        """Record how an attempt ended; repeating it changes nothing, and the first reason stays.

        Returns:
            True when this call wrote it.

        Raises:
            LookupError: There is no such attempt.
        """
        query = _attempts(dag_id=dag_id, run_id=run_id).where(events.c.job == job, events.c.attempt == attempt)
        with self._transaction() as conn:
            found = _read(conn, query)
            if not found:
                raise LookupError(f"{dag_id} {run_id}: {job} has no attempt {attempt}")
            if found[0].ended_at is not None:
                return False
            names = {"group_id": found[0].group_id, "lease_id": found[0].lease_id, "dag_id": dag_id, "run_id": run_id}
            self._write(conn, "attempt_ended", job=job, attempt=attempt, reason=reason, body=details, **names)
            return True

    def open_attempt(self, *, dag_id: str, run_id: str, job: str) -> Attempt | None:
        """The attempt of this job that has not ended: what a retry or a clear re-attaches to."""
        with self._transaction() as conn:
            last = _last(conn, dag_id=dag_id, run_id=run_id, job=job)
        return last if last is not None and last.ended_at is None else None

    def open_attempts(self, *, group_id: str) -> tuple[Attempt, ...]:
        """Attempts on any lease of the group that have not ended, of all runs."""
        with self._transaction() as conn:
            return tuple(a for a in _read(conn, _select(events.c.group_id == group_id)) if a.ended_at is None)

    def attempts(self, *, dag_id: str, run_id: str) -> tuple[Attempt, ...]:
        """All attempts of a run, in the order in which they began."""
        with self._transaction() as conn:
            return _read(conn, _attempts(dag_id=dag_id, run_id=run_id))

    def preemptions(self, *, dag_id: str, run_id: str, job: str) -> int:
        """How often the job lost its capacity: attempts that ended preempted, lost or by a signal."""
        query = select(func.count()).where(
            is_kind("attempt_ended"),
            events.c.dag_id == dag_id,
            events.c.run_id == run_id,
            events.c.job == job,
            events.c.reason.in_(INTERRUPTIONS),
        )
        with self._transaction() as conn:
            return conn.scalar(query) or 0


def _select(*conditions: ColumnElement[bool]) -> Select[Any]:
    end = events.alias("end_of_attempt")
    same = and_(
        is_kind("attempt_ended", table=end),
        *(end.c[name] == events.c[name] for name in ("dag_id", "run_id", "job", "attempt")),
    )
    columns = (
        *(events.c[name] for name in ("dag_id", "run_id", "job", "lease_id", "group_id")),
        events.c.attempt.label("number"),
        events.c.at.label("started_at"),
        events.c.body.label("details"),
        end.c.at.label("ended_at"),
        end.c.reason,
        end.c.body.label("end_details"),
    )
    joined = events.outerjoin(end, same)
    return select(*columns).select_from(joined).where(is_kind("attempt"), *conditions).order_by(events.c.id)


def _attempts(*, dag_id: str, run_id: str) -> Select[Any]:
    return _select(events.c.dag_id == dag_id, events.c.run_id == run_id)


def _read(conn: Connection, query: Select[Any]) -> tuple[Attempt, ...]:
    return tuple(Attempt(**row) for row in conn.execute(query).mappings())


def _last(conn: Connection, *, dag_id: str, run_id: str, job: str) -> Attempt | None:
    query = _attempts(dag_id=dag_id, run_id=run_id).where(events.c.job == job)
    found = _read(conn, query.order_by(None).order_by(events.c.attempt.desc()).limit(1))
    return found[0] if found else None
