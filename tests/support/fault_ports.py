"""Store, ledger and EC2 as actors of a `fault_hub.Hub` reach them: at each call they may be killed or overtaken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from obstore.exceptions import GenericError
from sqlalchemy import event

from include.core.store import ObjectStore, check_key
from include.ledger.ledger import Ledger
from stack.ec2_double import Ec2Double
from stack.ec2_double.client import in_process_client
from tests.support.fault_hub import Hub, HubClock


@dataclass
class StoreContent:
    """What the bucket holds, and when it cannot be reached."""

    hub: Hub
    objects: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)
    outages: list[tuple[float, float, str]] = field(default_factory=list)

    def reachable(self, side: str) -> bool:
        now = self.hub.elapsed
        return not any(since <= now < until and who in (side, "all") for since, until, who in self.outages)


class VirtualStore(ObjectStore):
    """The real store's interface over a dictionary; ``side`` is ``control`` or ``agent``."""

    def __init__(self, url: str, content: StoreContent, *, side: str) -> None:
        super().__init__(url)
        self._content = content
        self._side = side
        self._time = HubClock(content.hub)

    @contextmanager
    def _call(self, what: str) -> Iterator[dict[str, tuple[bytes, datetime]]]:
        hub = self._content.hub
        hub.before_call(what)
        if not self._content.reachable(self._side):
            raise GenericError(f"the store cannot be reached: {what}")
        yield self._content.objects
        hub.after_call(what)

    def put(self, key: str, data: bytes) -> None:
        with self._call(f"put {key}") as objects:
            objects[check_key(key)] = data, self._time.now()

    def create(self, key: str, data: bytes) -> bool:
        with self._call(f"create {key}") as objects:
            new = check_key(key) not in objects
            if new:
                objects[key] = data, self._time.now()
        return new

    def get(self, key: str) -> bytes | None:
        with self._call(f"get {key}") as objects:
            found = objects.get(check_key(key))
        return None if found is None else found[0]

    def size(self, key: str) -> int | None:
        data = self.get(key)
        return None if data is None else len(data)

    def list(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        with self._call(f"list {prefix}") as objects:
            found = [(key, len(data)) for key, (data, _) in objects.items() if key.startswith(prefix.rstrip("/") + "/")]
        return iter(found)

    def list_with_times(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        with self._call(f"list {prefix}") as objects:
            found = [(key, at) for key, (_, at) in objects.items() if key.startswith(prefix.rstrip("/") + "/")]
        return iter(found)

    def delete(self, key: str) -> None:
        with self._call(f"delete {key}") as objects:
            objects.pop(key, None)


_compiled: dict[Any, Any] = {}


class PortLedger(Ledger):
    """The real ledger; nobody gives way inside a transaction, and a process that is killed there leaves nothing."""

    def __init__(self, url: str, *, hub: Hub, clock: HubClock) -> None:
        super().__init__(url, clock=clock)
        self._hub = hub
        # Nothing here outlives the machine, so nothing has to reach its disk.
        event.listen(self._engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
        # Statements are compiled once for all sequences.
        self._engine = self._engine.execution_options(compiled_cache=_compiled)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        self._hub.before_call("ledger")
        with self._engine.begin() as connection:
            yield connection
        self._hub.after_call("ledger")


_current: list[tuple[Ec2Double, Hub, Callable[[], object]]] = []
_clients: dict[str, Any] = {}


def use_double(double: Ec2Double, hub: Hub, after_launch: Callable[[], object]) -> None:
    """Let the shared clients ask this double: to make a client takes longer than a whole sequence."""
    _current[:] = [(double, hub, after_launch)]


def _handle(method: str, path: str, headers: Any, body: bytes) -> Any:
    [(double, hub, after_launch)] = _current
    what = f"EC2 {body[:40]!r}"
    hub.before_call(what)
    try:
        answer = double.handle(method, path, headers, body)
    finally:
        if b"Action=CreateFleet" in body:
            after_launch()
    hub.after_call(what)
    return answer


class SharedClients:
    """Clients as the engine is given them."""

    def launching(self) -> Any:
        return client("ec2")

    def reading(self) -> Any:
        return client("ec2")

    def quotas(self) -> Any:
        return client("service-quotas")


def client(service: str) -> Any:
    """The one client of a service."""
    if service not in _clients:
        _clients[service] = in_process_client(_handle, service=service, region="us-east-1")
    return _clients[service]
