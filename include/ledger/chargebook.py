"""The part of the ledger that holds charges: appended once by key, corrected by a superseding row."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal

from sqlalchemy import Connection, insert, select

from include.ledger.book import Book
from include.ledger.charges import Charge
from include.ledger.schema import charges
from include.ledger.totals import RunTotals, run_totals

_FIELDS = tuple(column for column in charges.c if column.key != "id")


class ChargeBook(Book):
    """Costs, energy and carbon of runs."""

    def charge(self, charge: Charge) -> bool:
        """Append a charge; repeating its key changes nothing.

        Returns:
            True when this call wrote it.
        """
        with self._transaction() as conn:
            if conn.scalar(select(charges.c.id).where(charges.c.key == charge.key)) is not None:
                return False
            conn.execute(insert(charges).values(asdict(charge)))
            return True

    def charges(self, *, dag_id: str, run_id: str) -> tuple[Charge, ...]:
        """Charges of a run in the order of writing, without those that a later one supersedes."""
        with self._transaction() as conn:
            return _current(conn, dag_id=dag_id, run_id=run_id)

    def totals(self, *, dag_id: str, run_id: str) -> RunTotals:
        """Sums over the charges of a run."""
        return run_totals(self.charges(dag_id=dag_id, run_id=run_id))


def _current(conn: Connection, *, dag_id: str, run_id: str) -> tuple[Charge, ...]:
    query = select(*(column.label(column.key) for column in _FIELDS)).where(
        charges.c.dag_id == dag_id, charges.c.run_id == run_id
    )
    found = [Charge(**row) for row in conn.execute(query.order_by(charges.c.id)).mappings()]
    superseded = {charge.supersedes for charge in found}
    return tuple(charge for charge in found if charge.key not in superseded)


def spent_usd(conn: Connection, *, dag_id: str, run_id: str) -> Decimal:
    """US dollars in the run's charges as far as they are known, inside the caller's transaction."""
    found = _current(conn, dag_id=dag_id, run_id=run_id)
    return sum((c.effective_cost_usd for c in found if c.effective_cost_usd is not None), Decimal(0))
