"""The part of the ledger that knows what teams hold and who waits; the intent's own transaction decides by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from include.core.clock import iso
from include.core.errors import QueuedError
from include.ledger.book import Book
from include.ledger.quota import (
    ASK_AGAIN_S,
    KEEPS_PLACE_S,
    competitors,
    describe_wait,
    may_start,
    refuse_impossible,
    refuse_over_month,
)
from include.ledger.records import IntentLimits, QueueEntry, TeamUse
from include.ledger.schema import charges, events, is_kind, is_open_intent, queue

_MONTHS_A_YEAR = 12


class QuotaBook(Book):
    """What teams hold, and the queue of those who wait."""

    def queue(self, team: str | None = None) -> tuple[QueueEntry, ...]:
        """Who waits, first come first; of one team where given. Who stopped asking is not among them."""
        with self._transaction() as conn:
            entries = _waiting(conn, self._clock.now())
        return tuple(entry for entry in entries if team is None or entry.team == team)

    def team_uses(self) -> tuple[TeamUse, ...]:
        """What each team holds now and has spent this month (UTC), by name."""
        with self._transaction() as conn:
            found = _uses(conn, self._clock.now(), with_money=True)
        return tuple(found[team] for team in sorted(found))


def check_quota(
    conn: Connection, limits: IntentLimits, *, group_id: str, dag_id: str, run_id: str, now: datetime
) -> QueuedError | None:
    """Decide over a new lease inside the caller's transaction.

    Returns:
        None when it may start, and its place in the queue is free again; else the error that the caller raises after
        the transaction, so that the place in the queue is kept.

    Raises:
        BudgetExceededError: No waiting helps, or none before the next month.
    """
    if limits.quota is None and limits.total is None:
        return None
    where = f"{dag_id} {run_id}"
    refuse_impossible(limits, where=where)
    monthly = any(quota is not None and quota.usd_per_month is not None for quota in (limits.quota, limits.total))
    uses = _uses(conn, now, with_money=monthly)
    refuse_over_month(limits, uses, next_month=_month_after(now).date().isoformat(), where=where)
    forget_silent(conn, now)
    asker = _take_place(conn, limits, group_id=group_id, dag_id=dag_id, run_id=run_id, now=now)
    rivals = competitors(asker, _waiting(conn, now), total=limits.total)
    ahead = rivals[: [entry.group_id for entry in rivals].index(group_id)]
    if may_start(asker, ahead, uses=uses, total=limits.total, now=now):
        leave_queue(conn, group_id)
        return None
    position = len(ahead) + 1
    place = f"number {position} of {len(rivals)}"
    message = describe_wait(asker, uses=uses, total=limits.total, place=place)
    return QueuedError(f"{where} {message}", position=position, retry_after_s=ASK_AGAIN_S)


def leave_queue(conn: Connection, group_id: str) -> None:
    """Give a place up."""
    conn.execute(delete(queue).where(queue.c.group_id == group_id))


def forget_silent(conn: Connection, now: datetime) -> None:
    """Take the place from those who stopped asking."""
    conn.execute(delete(queue).where(queue.c.asked_at < _silent_since(now)))


def _silent_since(now: datetime) -> str:
    return iso(now - timedelta(seconds=KEEPS_PLACE_S))


def _take_place(
    conn: Connection, limits: IntentLimits, *, group_id: str, dag_id: str, run_id: str, now: datetime
) -> QueueEntry:
    """The group's place: the one that it has, with what it asks for now, or a new one at the end."""
    asked = {
        "dag_id": dag_id,
        "run_id": run_id,
        "team": limits.team,
        "priority": limits.priority,
        "gpus": limits.gpus,
        "usd_per_h": limits.usd_per_h,
        "quota_gpus": None if limits.quota is None else limits.quota.gpus,
        "quota_usd_per_h": None if limits.quota is None else limits.quota.usd_per_h,
        "asked_at": iso(now),
    }
    changed = conn.execute(update(queue).where(queue.c.group_id == group_id).values(**asked))
    if not changed.rowcount:
        since = _held_since(conn, group_id) or iso(now)
        conn.execute(insert(queue).values(group_id=group_id, since=since, **asked))
    return QueueEntry(**conn.execute(select(queue).where(queue.c.group_id == group_id)).mappings().one())


def _held_since(conn: Connection, group_id: str) -> str | None:
    """When the group got its first lease since it was opened: one that lost its lease goes before those without any."""
    closed = select(func.coalesce(func.max(events.c.id), 0)).where(
        events.c.kind == "closed", events.c.group_id == group_id
    )
    first = select(func.min(events.c.at)).where(
        is_kind("intent"), events.c.group_id == group_id, events.c.id > closed.scalar_subquery()
    )
    return conn.scalar(first)


def _waiting(conn: Connection, now: datetime) -> tuple[QueueEntry, ...]:
    query = (
        select(queue)
        .where(queue.c.asked_at >= _silent_since(now))
        .order_by(queue.c.priority.desc(), queue.c.since, queue.c.number)
    )
    return tuple(QueueEntry(**row) for row in conn.execute(query).mappings())


def _uses(conn: Connection, now: datetime, *, with_money: bool) -> dict[str, TeamUse]:
    start = _month_of(now)
    found: dict[str, TeamUse] = {}

    def of(team: str) -> TeamUse:
        return found.setdefault(team, TeamUse(team=team, month=start.date().isoformat()))

    for body in conn.scalars(select(events.c.body).where(is_open_intent())):
        if team := body.get("team"):
            use = of(team)
            found[team] = replace(
                use,
                leases=use.leases + 1,
                gpus=use.gpus + int(body.get("gpus") or 0),
                usd_per_h=use.usd_per_h + Decimal(body.get("usd_per_h") or 0),
                promised_usd=use.promised_usd + Decimal(body.get("commit_usd") or 0),
            )
    if with_money:
        for team, usd in _spent_since(conn, start, _month_after(now)):
            found[team] = replace(of(team), spent_usd=of(team).spent_usd + usd)
    return found


def _spent_since(conn: Connection, start: datetime, end: datetime) -> list[tuple[str, Decimal]]:
    """Team and US dollars of each charge of its leases: the part of their time within start and end, half-open."""
    later = charges.alias("correction")
    team = events.c.body["team"].as_string()
    query = (
        select(team, charges.c.period_start, charges.c.period_end, charges.c.effective_cost_usd)
        .select_from(charges)
        .join(events, (events.c.lease_id == charges.c.lease_id) & is_kind("intent"))
        .where(
            charges.c.period_end >= iso(start),
            charges.c.period_start < iso(end),
            charges.c.effective_cost_usd.is_not(None),
            team.is_not(None),
            team != "",
            ~exists().where(later.c.supersedes == charges.c.key),
        )
    )
    return [
        (name, usd * _share(datetime.fromisoformat(since), datetime.fromisoformat(until), start, end))
        for name, since, until, usd in conn.execute(query)
    ]


def _share(since: datetime, until: datetime, start: datetime, end: datetime) -> Decimal:
    """Part of a time that lies within start and end; a moment counts where it lies."""
    if until <= since:
        return Decimal(int(start <= since < end))
    inside = max(min(until, end) - max(since, start), timedelta(0))
    microsecond = timedelta(microseconds=1)
    return Decimal(inside // microsecond) / Decimal((until - since) // microsecond)


def _month_of(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _month_after(now: datetime) -> datetime:
    start = _month_of(now)
    years, month = divmod(start.month, _MONTHS_A_YEAR)
    return start.replace(year=start.year + years, month=month + 1)
