"""Wait until the agent of a lease beats for the first time, until its instance is gone, or until that took too long."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.config.settings import Settings
from include.core.store import ObjectStore
from plimsoll.hooks.instance_watch import InstanceWatch
from plimsoll.hooks.rented import Instances
from plimsoll.triggers.silence import READ_PATIENCE_S, Silence, seconds_left

_POLL_S = 0.4


class LeaseReadyTrigger(BaseTrigger):
    """Watches the heartbeat of a lease.

    Args:
        lease_id: Lease to wait for.
        until: POSIX seconds until which it may take; None waits for as long as the task does.
        boot_s: The same in seconds from the launch: a bound for a clock that jumped.
        instances: Instances to ask EC2 for meanwhile, None on a machine of one's own.
    """

    def __init__(
        self, *, lease_id: str, until: float | None = None, boot_s: float = 0.0, instances: Instances | None = None
    ) -> None:
        super().__init__()
        self.lease_id = lease_id
        self.until = until
        self.boot_s = boot_s
        self.instances = instances

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Stored form; new arguments get defaults, old ones are never renamed."""
        return (
            "plimsoll.triggers.lease_ready_trigger.LeaseReadyTrigger",
            {"lease_id": self.lease_id, "until": self.until, "boot_s": self.boot_s, "instances": self.instances},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the state of the first heartbeat, ``gone`` or ``silent``."""
        store = ObjectStore(Settings.from_environment().store, patience_s=READ_PATIENCE_S)
        left = math.inf if self.until is None else seconds_left(self.until, at_most=self.boot_s)
        silence, watch = Silence(lost_after_s=left), InstanceWatch(self.instances)
        key = f"leases/{self.lease_id}/heartbeat.json"
        while True:
            beats = await silence.listen(self._read(store, key))
            if beats:
                yield TriggerEvent({"status": beats[0]["state"], "lease_id": self.lease_id})
                return
            if gone := watch.look(silent_s=silence.seconds):
                yield TriggerEvent({"status": "gone", "lease_id": self.lease_id, "why": gone})
                return
            if silence.too_long:
                yield TriggerEvent({"status": "silent", "lease_id": self.lease_id})
                return
            await asyncio.sleep(_POLL_S)

    @staticmethod
    async def _read(store: ObjectStore, key: str) -> list[dict[str, Any]]:
        beat = await store.get_json_async(key)
        return [] if beat is None else [beat]
