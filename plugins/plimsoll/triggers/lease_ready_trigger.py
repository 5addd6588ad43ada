"""Wait until the agent of a lease beats for the first time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.config.settings import Settings
from include.core.store import ObjectStore

_POLL_S = 0.4


class LeaseReadyTrigger(BaseTrigger):
    """Watches the heartbeat of a lease.

    Args:
        lease_id: Lease to wait for.
    """

    def __init__(self, *, lease_id: str) -> None:
        super().__init__()
        self.lease_id = lease_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Stored form."""
        return ("plimsoll.triggers.lease_ready_trigger.LeaseReadyTrigger", {"lease_id": self.lease_id})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event with the state of the first heartbeat."""
        store = ObjectStore(Settings.from_environment().store)
        while True:
            beat = await store.get_json_async(f"leases/{self.lease_id}/heartbeat.json")
            if beat is not None:
                yield TriggerEvent({"status": beat["state"], "lease_id": self.lease_id})
                return
            await asyncio.sleep(_POLL_S)
