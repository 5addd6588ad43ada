"""The base of the ledger: its transactions and its event rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, insert

from include.core.clock import Clock, SystemClock, iso
from include.ledger.engine import make_engine
from include.ledger.schema import events


class Book:
    """Connection and clock that all parts of the ledger share.

    Args:
        url: SQLAlchemy URL of the ledger; see `include.ledger.engine.make_engine`.
        clock: Clock of the records.
    """

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self._engine = make_engine(url)
        self._clock = clock or SystemClock()

    def dispose(self) -> None:
        """Close the pooled connections; the next call opens new ones."""
        self._engine.dispose()

    def _transaction(self) -> AbstractContextManager[Connection]:
        return self._engine.begin()

    def _now(self) -> str:
        return iso(self._clock.now())

    def _write(self, conn: Connection, kind: str, *, body: Mapping[str, Any] | None = None, **columns: Any) -> None:  # noqa: ANN401 - columns of several types
        conn.execute(insert(events).values(at=self._now(), kind=kind, body=dict(body or {}), **columns))
