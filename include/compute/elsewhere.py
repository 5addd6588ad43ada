"""Leases of an engine that these settings do not look at: settings live in a shell, and a second one may lack them."""

from __future__ import annotations

from include.compute.damage import DamagedDocumentError, read_object
from include.compute.ec2.lease_view import is_settled
from include.compute.lease_keys import ROOT, LeaseKeys, lease_of
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger

_EC2 = "ec2"


def is_elsewhere(lease_id: str, engine: str) -> str:
    """The line for people."""
    return (
        f"lease {lease_id} is on the engine {engine}, which PLIMSOLL_ENGINE of this shell does not look at | "
        f"do: set PLIMSOLL_ENGINE={engine}, with the region it was launched in, and give the same command again"
    )


def leases_elsewhere(store: ObjectStore, ledger: Ledger | None) -> dict[str, str]:
    """Leases on EC2 that are not over by what store and ledger have, each with the line for people.

    Args:
        store: The object store.
        ledger: The ledger; None where the store alone is asked.
    """
    documents: dict[str, set[str]] = {}
    for key, _ in store.list(ROOT):
        documents.setdefault(lease_of(key), set()).add(key)
    found = {lease_id for lease_id, keys in documents.items() if not is_settled(keys) and _is_on_ec2(store, lease_id)}
    for entry in () if ledger is None else ledger.open_leases():
        record = ledger.lease_record(entry.lease_id) if ledger is not None else None
        if record is not None and record.details.get("engine") == _EC2:
            found.add(entry.lease_id)
    return {lease_id: is_elsewhere(lease_id, _EC2) for lease_id in sorted(found)}


def _is_on_ec2(store: ObjectStore, lease_id: str) -> bool:
    try:
        return (read_object(store, LeaseKeys(lease_id).spec) or {}).get("engine") == _EC2
    except DamagedDocumentError:  # told by whoever walks over the leases
        return False
