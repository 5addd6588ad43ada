"""The endpoints of one server, kept equal to the desired states in the store.

Loading happens in a thread and ends with a first answer; only then does the new version take the place of the old one,
in one assignment. Requests that were queued for the old version are still answered by it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime

from include.core.clock import Clock, SystemClock, iso
from include.core.store import ObjectStore
from include.serving.artefact import ArtefactError, ServedModel, load_model
from include.serving.batcher import MicroBatcher
from include.serving.desired import SERVING_PREFIX, ActualState, DesiredState, ServedVersion, actual_key
from include.serving.metrics import ServerMetrics

_log = logging.getLogger("plimsoll.serving")
_DESIRED = "/desired.json"
# Seconds until a load that failed for a passing reason (the store did not answer) is tried again.
RETRY_S = 5.0
_UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What answers under one name.

    Attributes:
        model: The loaded version.
        batcher: Its queue.
        loaded_at: Since when it answers.
    """

    model: ServedModel
    batcher: MicroBatcher
    loaded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """Limits of each endpoint's queue: see `MicroBatcher`."""

    max_rows: int = 64
    max_wait_s: float = 0.002
    max_queue: int = 512


class EndpointTable:
    """Follows the desired states under one prefix of the store.

    Args:
        store: The object store.
        url: Base URL of this server, written into the actual states.
        metrics: Metrics of the server.
        prefix: Store prefix that holds ``<endpoint>/desired.json``.
        poll_s: Seconds between two looks at the store.
        batching: Limits of each endpoint's queue.
        clock: Clock for records and retries.
    """

    def __init__(
        self,
        *,
        store: ObjectStore,
        url: str,
        metrics: ServerMetrics,
        prefix: str = SERVING_PREFIX,
        poll_s: float = 0.5,
        batching: BatchSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self._store = store
        self._url = url
        self._metrics = metrics
        self._prefix = prefix
        self._poll_s = poll_s
        self._batching = batching or BatchSettings()
        self._clock = clock or SystemClock()
        self._acted_on: dict[str, str] = {}
        self._retry_at: dict[str, float] = {}
        self._unwritten: dict[str, ActualState] = {}
        self._draining: set[asyncio.Task[None]] = set()

    async def follow(self) -> None:
        """Look at the store for ever. A store that does not answer changes nothing of what is served."""
        reachable = True
        while True:
            try:
                await self.refresh()
                reachable = True
            except Exception as error:  # noqa: BLE001 - the store's errors are many; serving goes on through all
                if reachable:
                    _log.warning("store does not answer, serving goes on: %s", error)
                reachable = False
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        """Bring the endpoints in line with the desired states once."""
        await self._write_actual()
        names = await asyncio.to_thread(self._names)
        for name in [name for name in self._acted_on if name not in names]:
            await self._withdraw(name)
        for name in names:
            await self._follow_one(name)

    async def close(self) -> None:
        """Answer what is queued and say in the store that nothing answers any more."""
        for name in list(self._acted_on):
            await self._withdraw(name)
        await asyncio.gather(*self._draining)

    def _names(self) -> list[str]:
        start = len(self._prefix) + 1
        found = (
            key[start : -len(_DESIRED)] for key, _ in self._store.list(f"{self._prefix}/") if key.endswith(_DESIRED)
        )
        return sorted(name for name in found if name and "/" not in name)

    async def _follow_one(self, name: str) -> None:
        try:
            raw = await self._store.get_json_async(f"{self._prefix}/{name}{_DESIRED}")
            if raw is None:
                return
            desired = DesiredState.model_validate(raw)
        except ValueError as error:
            await self._refuse(name, error)
            return
        if self._acted_on.get(name) == desired.revision and self._clock.monotonic() < self._retry_at.get(
            name, float("inf")
        ):
            return
        await self._act(name, desired)

    async def _refuse(self, name: str, error: ValueError) -> None:
        if self._acted_on.get(name) != _UNREADABLE:
            self._acted_on[name] = _UNREADABLE
            await self._report(name, revision="", state="failed", error=f"desired state is not valid: {error}")

    async def _act(self, name: str, desired: DesiredState) -> None:
        self._acted_on[name] = desired.revision
        self._retry_at.pop(name, None)
        current = self.endpoints.get(name)
        if current is None or current.model.served != desired.served:
            await self._report(name, revision=desired.revision, state="loading")
            error = await self._load(name, desired.served)
            if error is not None:
                await self._fail(name, desired, error)
                return
        await self._report(name, revision=desired.revision, state="serving")

    async def _load(self, name: str, served: ServedVersion) -> str | None:
        """Load and swap; the reason when that is not possible."""
        try:
            model = await asyncio.to_thread(load_model, self._store, served)
        except ArtefactError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever the store or a manifest throws, the old version serves on
            self._retry_at[name] = self._clock.monotonic() + RETRY_S
            return f"{type(error).__name__}: {error}"
        self._swap(name, model)
        return None

    async def _fail(self, name: str, desired: DesiredState, error: str) -> None:
        _log.error("endpoint=%s version=%s cannot be served: %s", name, desired.served.version, error)
        if name not in self.endpoints and desired.previous is not None:
            # A restart found a broken version: what was verified before it is better than silence.
            fallback = await self._load(name, desired.previous)
            if fallback is not None:
                error = f"{error}; the previous version {desired.previous.version} failed too: {fallback}"
        await self._report(name, revision=desired.revision, state="failed", error=error)

    def _swap(self, name: str, model: ServedModel) -> None:
        rows = self._metrics.batch_rows.labels(name)
        batcher = MicroBatcher(
            model.score,
            max_rows=self._batching.max_rows,
            max_wait_s=self._batching.max_wait_s,
            max_queue=self._batching.max_queue,
            on_batch=rows.observe,
        )
        old = self.endpoints.get(name)
        self.endpoints[name] = Endpoint(model=model, batcher=batcher, loaded_at=self._clock.now())
        self._metrics.loaded.labels(name, model.served.version).set(1)
        if old is not None:
            self._retire(name, old, successor=model.served.version)
        _log.info("endpoint=%s serves %s version %s", name, model.served.model_name, model.served.version)

    def _retire(self, name: str, old: Endpoint, *, successor: str | None) -> None:
        if old.model.served.version != successor:
            self._metrics.loaded.remove(name, old.model.served.version)
        task = asyncio.create_task(old.batcher.close())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _withdraw(self, name: str) -> None:
        old = self.endpoints.pop(name, None)
        if old is not None:
            self._retire(name, old, successor=None)
        await self._report(name, revision=self._acted_on.pop(name), state="stopped")

    async def _report(self, name: str, *, revision: str, state: str, error: str | None = None) -> None:
        endpoint = self.endpoints.get(name)
        served = endpoint.model.served if endpoint else None
        self._unwritten[name] = ActualState.model_validate(
            {
                "revision": revision,
                "state": state,
                "model_name": served and served.model_name,
                "version": served and served.version,
                "sha256": served and served.sha256,
                "loaded_at": endpoint and iso(endpoint.loaded_at),
                "error": error,
                "url": self._url,
            }
        )
        try:
            await self._write_actual()
        except Exception as away:  # noqa: BLE001 - the store's errors are many; it is written at the next look
            _log.warning("endpoint=%s: actual state %s not written yet: %s", name, state, away)

    async def _write_actual(self) -> None:
        # Kept until written: a deployment waits for this document, and the store may be away for a moment.
        for name, actual in list(self._unwritten.items()):
            await self._store.put_json_async(actual_key(name, prefix=self._prefix), actual.model_dump(mode="json"))
            if self._unwritten.get(name) is actual:
                del self._unwritten[name]
