"""Alembic scripts of the ledger; part of the package so that a wheel can migrate."""
