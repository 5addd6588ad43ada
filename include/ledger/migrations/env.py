"""Alembic's entry: runs the scripts on the connection that `include.ledger.migrate` hands over."""

from __future__ import annotations

from alembic import context

from include.ledger.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
# The caller's transaction is the one that commits: it holds the lock against a second migration.
context.run_migrations()
