"""Tables of the ledger as the code sees them; the migrations create them.

``events`` and ``charges`` are append-only, which triggers in the database hold. ``groups``, ``locks`` and ``queue``
hold the only rows that change. Charges use the column names of FOCUS (https://focus.finops.org, version 1.3) where one
exists and ``x_`` names for ours; in Python each column goes by the field name of `include.ledger.charges.Charge`.
"""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Float,
    FromClause,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    and_,
    exists,
    literal_column,
    text,
)


class DecimalText(TypeDecorator[Decimal]):
    """Money as decimal text: exact on every database, and null where unknown."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - its interface
        """Plain decimal notation."""
        return None if value is None else format(value, "f")

    def process_result_value(self, value: str | None, dialect: Dialect) -> Decimal | None:  # noqa: ARG002 - see above
        """Decimal of the text."""
        return None if value is None else Decimal(value)


metadata = MetaData()

groups = Table(
    "groups",
    metadata,
    Column("group_id", Text, primary_key=True),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("closed", Boolean, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("group_id", Text),
    Column("lease_id", Text),
    Column("generation", Integer),
    Column("dag_id", Text),
    Column("run_id", Text),
    Column("job", Text),
    Column("attempt", Integer),
    Column("reason", Text),
    Column("idempotency_key", Text, unique=True),
    Column("body", JSON, nullable=False),
)


def is_kind(kind: str, *, table: FromClause = events) -> ColumnElement[bool]:
    """``kind = '...'`` spelt out: SQLite uses a partial index only where the condition is a literal."""
    return table.c.kind == literal_column(f"'{kind}'")


def is_open_intent() -> ColumnElement[bool]:
    """An intent whose lease has no end yet."""
    end = events.alias("end_of_lease")
    return and_(is_kind("intent"), ~exists().where(is_kind("ended", table=end), end.c.lease_id == events.c.lease_id))


def _unique(name: str, *columns: str, kind: str) -> Index:
    where = text(f"kind = '{kind}'")
    return Index(name, *(events.c[c] for c in columns), unique=True, sqlite_where=where, postgresql_where=where)


_unique("uq_intent", "group_id", "generation", kind="intent")
_unique("uq_launched", "lease_id", kind="launched")
_unique("uq_ended", "lease_id", kind="ended")
_unique("uq_attempt", "dag_id", "run_id", "job", "attempt", kind="attempt")
_unique("uq_attempt_ended", "dag_id", "run_id", "job", "attempt", kind="attempt_ended")
Index("ix_events_run", events.c.dag_id, events.c.run_id, events.c.kind)
Index("ix_events_group", events.c.group_id, events.c.kind)
Index("ix_events_lease", events.c.lease_id, events.c.kind)

charges = Table(
    "charges",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("x_ChargeKey", Text, key="key", nullable=False, unique=True),
    Column("ChargePeriodStart", Text, key="period_start", nullable=False),
    Column("ChargePeriodEnd", Text, key="period_end", nullable=False),
    Column("SkuId", Text, key="sku_id"),
    Column("RegionId", Text, key="region_id"),
    Column("PricingCategory", Text, key="pricing_category"),
    Column("PricingQuantity", DecimalText, key="pricing_quantity_h"),
    Column("PricingUnit", Text, key="pricing_unit", nullable=False),
    Column("ListCost", DecimalText, key="list_cost_usd"),
    Column("EffectiveCost", DecimalText, key="effective_cost_usd"),
    Column("BillingCurrency", Text, key="billing_currency", nullable=False),
    Column("x_DagId", Text, key="dag_id", nullable=False),
    Column("x_RunId", Text, key="run_id", nullable=False),
    Column("x_LeaseId", Text, key="lease_id", nullable=False),
    Column("x_Job", Text, key="job"),
    Column("x_Purchase", Text, key="purchase"),
    Column("x_UsefulSeconds", Float, key="useful_s"),
    Column("x_LostSeconds", Float, key="lost_s"),
    Column("x_IdleSeconds", Float, key="idle_s"),
    Column("x_PaidSeconds", Float, key="paid_s"),
    Column("x_Kwh", Float, key="kwh"),
    Column("x_Gco2e", Float, key="gco2e"),
    Column("x_EnergyMethod", Text, key="energy_method", nullable=False),
    Column("x_CostMethod", Text, key="cost_method", nullable=False),
    Column("x_PriceAsOf", Text, key="price_as_of"),
    Column("x_GpuUtilisation", Float, key="gpu_utilisation"),
    Column("x_TensorActivity", Float, key="tensor_activity"),
    Column("x_GpuPeakMemoryShare", Float, key="gpu_peak_memory_share"),
    Column("x_PeakRssBytes", BigInteger, key="peak_rss_bytes"),
    Column("x_Supersedes", Text, key="supersedes"),
)
Index("ix_charges_run", charges.c.dag_id, charges.c.run_id)
Index("ix_charges_end", charges.c.period_end)

locks = Table(
    "locks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
)

queue = Table(
    "queue",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("group_id", Text, nullable=False, unique=True),
    Column("dag_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("team", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("usd_per_h", DecimalText),
    Column("quota_gpus", Integer),
    Column("quota_usd_per_h", DecimalText),
    Column("since", Text, nullable=False),
    Column("asked_at", Text, nullable=False),
)
