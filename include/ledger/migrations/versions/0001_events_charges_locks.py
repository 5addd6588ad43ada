"""Groups, events, charges and locks.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_APPEND_ONLY = ("events", "charges")


def upgrade() -> None:
    """Create everything."""
    _groups_and_locks()
    _events()
    _charges()
    dialect = op.get_bind().dialect.name
    for table in _APPEND_ONLY:
        for statement in _sqlite_guards(table) if dialect == "sqlite" else _postgresql_guards(table):
            op.execute(statement)


def downgrade() -> None:
    """Drop everything, for tests on an empty ledger."""
    for table in ("locks", "charges", "events", "groups"):
        op.drop_table(table)


def _groups_and_locks() -> None:
    op.create_table(
        "groups",
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("closed", sa.Boolean, nullable=False),
    )
    op.create_table(
        "locks",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
    )


def _events() -> None:
    texts = ("group_id", "lease_id", "dag_id", "run_id", "job", "reason")
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in texts),
        sa.Column("generation", sa.Integer),
        sa.Column("attempt", sa.Integer),
        sa.Column("idempotency_key", sa.Text, unique=True),
        sa.Column("body", sa.JSON, nullable=False),
    )
    _unique("uq_intent", ["group_id", "generation"], kind="intent")
    _unique("uq_launched", ["lease_id"], kind="launched")
    _unique("uq_ended", ["lease_id"], kind="ended")
    _unique("uq_attempt", ["dag_id", "run_id", "job", "attempt"], kind="attempt")
    _unique("uq_attempt_ended", ["dag_id", "run_id", "job", "attempt"], kind="attempt_ended")
    op.create_index("ix_events_run", "events", ["dag_id", "run_id", "kind"])
    op.create_index("ix_events_group", "events", ["group_id", "kind"])
    op.create_index("ix_events_lease", "events", ["lease_id", "kind"])


def _unique(name: str, columns: list[str], *, kind: str) -> None:
    where = sa.text(f"kind = '{kind}'")
    op.create_index(name, "events", columns, unique=True, sqlite_where=where, postgresql_where=where)


def _charges() -> None:
    required = ("ChargePeriodStart", "ChargePeriodEnd", "PricingUnit", "BillingCurrency", "x_DagId", "x_RunId")
    methods = ("x_LeaseId", "x_EnergyMethod", "x_CostMethod")
    texts = ("SkuId", "RegionId", "PricingCategory", "x_Job", "x_Purchase", "x_PriceAsOf", "x_Supersedes")
    decimals = ("PricingQuantity", "ListCost", "EffectiveCost")
    seconds = ("x_UsefulSeconds", "x_LostSeconds", "x_IdleSeconds", "x_PaidSeconds")
    measured = ("x_Kwh", "x_Gco2e", "x_GpuUtilisation", "x_TensorActivity", "x_GpuPeakMemoryShare")
    op.create_table(
        "charges",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("x_ChargeKey", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in required + methods),
        *(sa.Column(name, sa.Text) for name in texts + decimals),
        *(sa.Column(name, sa.Float) for name in seconds + measured),
        sa.Column("x_PeakRssBytes", sa.BigInteger),
    )
    op.create_index("ix_charges_run", "charges", ["x_DagId", "x_RunId"])


def _sqlite_guards(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    ]


def _postgresql_guards(table: str) -> list[str]:
    refuse = (
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    guard = (
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change()"
    )
    return [refuse, guard]
