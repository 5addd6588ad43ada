"""Wait for one attempt of a job: tail its log into the task log, see its end, its loss, or what it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.config.settings import Settings
from include.core.ids import log_chunk_key
from include.core.store import ObjectStore
from plimsoll.hooks.budget_watch import Budget, crossed
from plimsoll.hooks.instance_watch import InstanceWatch
from plimsoll.hooks.rented import Instances
from plimsoll.hooks.short_wait import numbered
from plimsoll.triggers.silence import READ_PATIENCE_S, Silence, seconds_left

_POLL_S = 0.4
# A clear re-attaches within seconds, and this trigger's on_kill runs beside it; the limit of on_kill is 30 s.
_GRACE_S = 12.0
# A task that nobody refers to may be collected before it is done.
_last_looks: set[asyncio.Task[None]] = set()


class JobTrigger(BaseTrigger):
    """Watches the documents of one attempt. It reads and tells; what is done about it is the operator's.

    Args:
        base: Store prefix of the attempt.
        lease_id: Lease it runs on.
        lost_after_s: Seconds without any new heartbeat, on this process's clock, after which it counts as lost.
        nonce: Identity of this watch in ``watch.json``; empty on shared leases, which are never stopped from here.
        boot_until: POSIX seconds until which the lease may come up before its silence counts.
        boot_s: The same in seconds from the launch: a bound for a clock that jumped.
        instances: Instances to ask EC2 for when nothing is heard, None on a machine of one's own.
        budget: Budget of the run to compare the lease's spend with, None without one.
        leave_by: POSIX seconds by which an agent has left that was asked to; it counts as lost then.
        look_again_s: Seconds after which the task looks again although nothing happened.
        rebalance_seen: Advice to move away that the task knows of; only another one is told.
        printed: Log chunks that an earlier watch of this attempt has printed.
    """

    def __init__(
        self,
        *,
        base: str,
        lease_id: str,
        lost_after_s: float,
        nonce: str = "",
        boot_until: float | None = None,
        boot_s: float = 0.0,
        instances: Instances | None = None,
        budget: Budget | None = None,
        leave_by: float | None = None,
        look_again_s: float | None = None,
        rebalance_seen: str | None = None,
        printed: int = 0,
    ) -> None:
        super().__init__()
        self.base = base
        self.lease_id = lease_id
        self.lost_after_s = lost_after_s
        self.nonce = nonce
        self.boot_until = boot_until
        self.boot_s = boot_s
        self.instances = instances
        self.budget = budget
        self.leave_by = leave_by
        self.look_again_s = look_again_s
        self.rebalance_seen = rebalance_seen
        self.printed = self._shown = printed

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Stored form; new arguments get defaults, old ones are never renamed."""
        return (
            "plimsoll.triggers.job_trigger.JobTrigger",
            {
                "base": self.base,
                "lease_id": self.lease_id,
                "lost_after_s": self.lost_after_s,
                "nonce": self.nonce,
                "boot_until": self.boot_until,
                "boot_s": self.boot_s,
                "instances": self.instances,
                "budget": self.budget,
                "leave_by": self.leave_by,
                "look_again_s": self.look_again_s,
                "rebalance_seen": self.rebalance_seen,
                "printed": self.printed,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event.

        ``exited``, ``lost``, ``budget_80``, ``budget_reached``, ``rebalance`` or ``look_again``, each with the lease
        and with how much of the log was printed.
        """
        store = ObjectStore(Settings.from_environment().store, patience_s=READ_PATIENCE_S)
        began = time.monotonic()
        boot_s = 0.0 if self.boot_until is None else seconds_left(self.boot_until, at_most=self.boot_s)
        silence = Silence(lost_after_s=self.lost_after_s, boot_s=boot_s)
        watch = InstanceWatch(self.instances)
        self.log.info("watching %s on %s (its log from chunk %d on)", self.base, self.lease_id, self._shown + 1)
        while True:
            heard = await silence.listen(self._read(store))
            if heard is not None:
                job, lease = heard
                silence.hear(job, lease)
                event = self._end(job, lease) or self._loss(silence, watch) or self._news(lease, began)
                if event is not None:
                    known = {"base": self.base, "printed": self._shown, "rebalance_seen": self.rebalance_seen}
                    yield TriggerEvent({**known, **event, "lease_id": self.lease_id})
                    return
            await asyncio.sleep(_POLL_S)

    async def _read(self, store: ObjectStore) -> tuple[dict[str, Any], dict[str, Any]]:
        """The two heartbeats; what is new in the log is printed, and stays so should a later read fail."""
        job = await store.get_json_async(f"{self.base}/heartbeat.json") or {}
        lease = await store.get_json_async(f"leases/{self.lease_id}/heartbeat.json") or {}
        while (chunk := await store.get_async(log_chunk_key(self.base, self._shown + 1))) is not None:
            self._shown += 1
            for line in numbered(chunk, self._shown):
                self.log.info("%s", line)
        return job, lease

    def _end(self, job: dict[str, Any], lease: dict[str, Any]) -> dict[str, Any] | None:
        """What the documents themselves say."""
        if job.get("state") == "exited":
            return {"status": "exited"} if self._shown >= int(job.get("chunks", 0)) else None
        if lease.get("state") == "ended":
            return {"status": "lost", "why": lease.get("reason", "")}
        return None

    def _loss(self, silence: Silence, watch: InstanceWatch) -> dict[str, Any] | None:
        """What has to be concluded from what they do not say."""
        if gone := watch.look(silent_s=silence.seconds):
            return {"status": "lost", "why": gone}
        if silence.too_long:
            return {"status": "lost", "why": "silent"}
        if self.leave_by is not None and time.time() > self.leave_by:
            return {"status": "lost", "why": "the agent was asked to leave and did not"}
        return None

    def _news(self, lease: dict[str, Any], began: float) -> dict[str, Any] | None:
        """What the operator wants to hear of while all goes on."""
        if mark := crossed(self.budget, lease.get("spend_usd")):
            return {"status": mark, "spend_usd": lease["spend_usd"]}
        advice = lease.get("rebalance_at")
        if advice and advice != self.rebalance_seen:
            return {"status": "rebalance", "rebalance_seen": advice}
        if self.look_again_s is not None and time.monotonic() - began > self.look_again_s:
            return {"status": "look_again"}
        return None

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
