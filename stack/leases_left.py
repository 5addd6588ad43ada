"""Leases of runs that still live, by two witnesses beside the ledger: the engines and the process table."""

from __future__ import annotations

import psutil

from include.compute.damage import sort_out
from include.config.settings import Settings
from include.core.contracts.lease import LeaseState
from include.core.store import ObjectStore
from stack.ports import Ports
from stack.rented import router

_OF_RUNS = ("train-", "work-")
_AGENT = "include.compute.agent"


def leases_left(store: ObjectStore, settings: Settings, ports: Ports | None = None) -> set[str]:
    """Ids of all leases of runs that at least one witness holds for alive.

    Args:
        store: The object store.
        settings: Settings of the engine.
        ports: Ports of the stack, where it may have an EC2 double.
    """
    return by_engine(store, settings, ports) | by_process_table(settings)


def by_engine(store: ObjectStore, settings: Settings, ports: Ports | None = None) -> set[str]:
    """Leases of runs that the engines know and have not seen end, or cannot read."""
    found, damaged = sort_out(router(store, settings, ports).find)
    alive = {lease.lease_id for lease in found if lease.state is not LeaseState.ENDED}
    return {lease_id for lease_id in {*alive, *damaged} if lease_id.startswith(_OF_RUNS)}


def by_process_table(settings: Settings) -> set[str]:
    """Leases of runs whose agent is a live process of this installation: one that works on the same store."""
    found = set()
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if _AGENT not in words or process.status() == psutil.STATUS_ZOMBIE:
                continue
            lease = next((word for word in words if word.startswith(_OF_RUNS)), None)
            if lease is not None and process.environ().get("PLIMSOLL_STORE") == settings.store:
                found.add(lease)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
