"""Wait for one attempt of a job: tail its log into the task log, see its end, its silence, or its lease's end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.config.settings import Settings
from include.core.ids import log_chunk_key
from include.core.store import ObjectStore
from plimsoll.hooks.short_wait import numbered

_POLL_S = 0.4
# A clear re-attaches within seconds, and this trigger's on_kill runs beside it; the limit of on_kill is 30 s.
_GRACE_S = 12.0
# A task that nobody refers to may be collected before it is done.
_last_looks: set[asyncio.Task[None]] = set()


class JobTrigger(BaseTrigger):
    """Watches the documents of one attempt.

    Args:
        base: Store prefix of the attempt.
        lease_id: Lease it runs on.
        lost_after_s: Seconds without any new heartbeat, on this process's clock, after which it counts as lost.
        nonce: Identity of this watch in ``watch.json``; empty on shared leases, which are never stopped from here.
    """

    def __init__(self, *, base: str, lease_id: str, lost_after_s: float, nonce: str = "") -> None:
        super().__init__()
        self.base = base
        self.lease_id = lease_id
        self.lost_after_s = lost_after_s
        self.nonce = nonce

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Stored form; new arguments get defaults, old ones are never renamed."""
        return (
            "plimsoll.triggers.job_trigger.JobTrigger",
            {"base": self.base, "lease_id": self.lease_id, "lost_after_s": self.lost_after_s, "nonce": self.nonce},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: ``exited`` or ``lost``."""
        store = ObjectStore(Settings.from_environment().store)
        printed = 0
        seen: tuple[Any, ...] = ()
        changed = time.monotonic()
        self.log.info(
            "watching %s on %s (log repeated from chunk 1 if this watch starts late)", self.base, self.lease_id
        )
        while True:
            job = await store.get_json_async(f"{self.base}/heartbeat.json") or {}
            lease = await store.get_json_async(f"leases/{self.lease_id}/heartbeat.json") or {}
            printed = await self._print_log(store, printed)
            if job.get("state") == "exited" and printed >= int(job.get("chunks", 0)):
                yield TriggerEvent({"status": "exited", "lease_id": self.lease_id})
                return
            if lease.get("state") == "ended" and job.get("state") != "exited":
                yield TriggerEvent({"status": "lost", "lease_id": self.lease_id, "why": lease.get("reason", "")})
                return
            now = (job.get("sequence"), lease.get("sequence"))
            if now != seen:
                seen, changed = now, time.monotonic()
            if time.monotonic() - changed > self.lost_after_s:
                yield TriggerEvent({"status": "lost", "lease_id": self.lease_id, "why": "silent"})
                return
            await asyncio.sleep(_POLL_S)

    async def _print_log(self, store: ObjectStore, printed: int) -> int:
        while (chunk := await store.get_async(log_chunk_key(self.base, printed + 1))) is not None:
            printed += 1
            for line in numbered(chunk, printed):
                self.log.info("%s", line)
        return printed

    async def on_kill(self) -> None:
        """Stop the lease if nobody came back: mark-failed and clear look alike from here.

        Until a trigger has finished, Airflow cancels it anew about every second, and with it this method (seen with
        3.3.2). So the wait happens in a task of its own, which the next cancellation does not reach.
        """
        if not self.nonce:
            return
        last_look = asyncio.create_task(self._stop_unless_watched())
        _last_looks.add(last_look)
        last_look.add_done_callback(_last_looks.discard)
        await asyncio.shield(last_look)

    async def _stop_unless_watched(self) -> None:
        store = ObjectStore(Settings.from_environment().store)
        await asyncio.sleep(_GRACE_S)
        watch = await store.get_json_async(f"leases/{self.lease_id}/watch.json") or {}
        if watch.get("nonce") == self.nonce:
            self.log.info("nobody re-attached to %s: asking its agent to stop", self.lease_id)
            await store.put_json_async(f"leases/{self.lease_id}/stop.json", {"by": "trigger on_kill"})
