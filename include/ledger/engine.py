"""Engines whose every transaction is the only one: no upgrade failures, no gaps, no doubles.

SQLite begins each transaction with BEGIN IMMEDIATE: a plain BEGIN that reads and then writes fails with "database is
locked" at once when another writer came between, whatever the busy timeout. PostgreSQL takes one advisory lock for the
length of the transaction, which is the same rule. So no slow call belongs inside a ledger transaction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url

from include.core.errors import UserError

_BUSY_TIMEOUT_S = 30.0
# Any constant will do: advisory locks are numbered per database, and nothing else in it uses this number.
_ADVISORY_LOCK = 0x506C696D


def make_engine(url: str) -> Engine:
    """Engine of the ledger; connects on first use.

    Make one per process: a pooled connection must not cross a fork.

    Args:
        url: ``sqlite:////abs/path/ledger.db`` or ``postgresql://user:password@host/database``.

    Raises:
        UserError: Neither SQLite on a file nor PostgreSQL.
    """
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return _sqlite(parsed)
    if backend in ("postgresql", "postgres"):
        return _postgresql(parsed)
    raise UserError(
        "unusable ledger URL",
        where="PLIMSOLL_LEDGER",
        found=parsed.render_as_string(hide_password=True),
        allowed="sqlite:////path/to/file.db or postgresql://user:password@host/database",
    )


def _sqlite(url: URL) -> Engine:
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - a DBAPI connection has no common type
    # The driver's own transaction handling would send a plain BEGIN.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    # FULL, not NORMAL: an intent stands before a call that spends money, so it must survive a power failure.
    connection.execute("PRAGMA synchronous=FULL")


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _postgresql(url: URL) -> Engine:
    # READ COMMITTED gives each statement a snapshot of its own, taken after the lock; a stricter level would keep the
    # snapshot from before the wait.
    engine = create_engine(
        url.set(drivername="postgresql+psycopg2") if "+" not in url.drivername else url,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
    )
    event.listen(engine, "begin", _lock_postgresql)
    return engine


def _lock_postgresql(connection: Connection) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
