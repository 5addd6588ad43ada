"""Append-only ledger of leases, attempts, costs and energy; also the lock table."""
