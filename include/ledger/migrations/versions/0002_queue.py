"""The queue of leases that wait for their team's quota; an index for the charges of a month.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the table and the index."""
    op.create_table(
        "queue",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("group_id", sa.Text, nullable=False, unique=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("dag_id", "run_id", "team")),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("usd_per_h", sa.Text),
        sa.Column("quota_gpus", sa.Integer),
        sa.Column("quota_usd_per_h", sa.Text),
        sa.Column("since", sa.Text, nullable=False),
        sa.Column("asked_at", sa.Text, nullable=False),
    )
    op.create_index("ix_charges_end", "charges", ["ChargePeriodEnd"])


def downgrade() -> None:
    """Take both away again."""
    op.drop_index("ix_charges_end", "charges")
    op.drop_table("queue")
