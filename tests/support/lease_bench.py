"""One engine with everything a test needs around it: leases with short ids, jobs, heartbeats, processes."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from include.compute.engine import Engine
from include.compute.engines.local import LocalEngine
from include.compute.engines.local_process import spawn_agent
from include.config.settings import Settings
from include.core.contracts.lease import JobPhase, JobState, JobTicket, LaunchRequest, LeaseState
from include.core.process import ProcessIdentity, identify, is_alive, kill_tree
from include.core.store import ObjectStore
from tests.support.fake_agent import AGENT_COMMAND
from tests.support.waiting import eventually


class Bench:
    """Drives an engine the way operators do."""

    def __init__(self, engine: Engine, store: ObjectStore, *, settings: Settings | None = None) -> None:
        self.engine = engine
        self.store = store
        self.settings = settings
        self._forgotten = False
        self._numbers = itertools.count(1)

    def request(self, group: str = "train-abc", generation: int = 1, **fields: Any) -> LaunchRequest:
        values: dict[str, Any] = {
            "lease_id": f"{group}-g{generation}",
            "group_id": group,
            "run_id": "run-1",
            "dag_id": "digits",
            "expires_after_s": 120.0,
            "idle_s": 60.0,
        }
        return LaunchRequest(**{**values, **fields})

    def launch(self, group: str = "train-abc", generation: int = 1, **fields: Any) -> str:
        """Launch and wait until the agent owns the lease."""
        lease = self.engine.launch(self.request(group, generation, **fields))
        eventually(lambda: self.state(lease.lease_id) is LeaseState.RUNNING, what="agent is ready")
        return lease.lease_id

    def submit(self, lease_id: str, kind: str = "compress", **script: Any) -> str:
        """Queue a job that follows the script; returns its base."""
        name = f"{kind}-{next(self._numbers)}"
        base = f"runs/digits/run-1/jobs/{name}"
        ticket = JobTicket(name=name, kind=kind, base=base, request_uri=self.store.uri(f"{base}/request.json"))
        self.engine.submit(lease_id, ticket, {"base": base, **script})
        return base

    def state(self, lease_id: str) -> LeaseState:
        return self.engine.describe(lease_id).state

    def ended(self, lease_id: str, *, within_s: float = 10.0) -> str:
        """Wait until the agent is gone; returns the reason it left behind."""
        eventually(lambda: self.state(lease_id) is LeaseState.ENDED, within_s=within_s, what="lease ended")
        beat = self.lease_beat(lease_id)
        return str(beat["reason"]) if beat["state"] == "ended" else "no last words"

    def wait_phase(self, lease_id: str, base: str, phase: JobPhase, *, within_s: float = 10.0) -> JobState:
        def there() -> JobState | None:
            state = self.engine.poll(lease_id, base)
            return state if state.phase is phase else None

        return eventually(there, within_s=within_s, what=f"{base} is {phase}")

    def working(self, lease_id: str, base: str, *, step: int = 1) -> None:
        """Wait until the job has reported a step."""
        eventually(lambda: self.beat(base).get("progress", {}).get("step", 0) >= step, what=f"step {step}")

    def beat(self, base: str) -> dict[str, Any]:
        return self.store.get_json(f"{base}/heartbeat.json") or {}

    def lease_beat(self, lease_id: str) -> dict[str, Any]:
        return self.store.get_json(f"leases/{lease_id}/heartbeat.json") or {}

    def log(self, base: str) -> str:
        chunks = [self.store.get(f"{base}/log/{number:06d}") for number in range(1, self.beat(base)["chunks"] + 1)]
        assert None not in chunks
        return b"".join(chunk or b"" for chunk in chunks).decode()

    def agent(self, lease_id: str) -> ProcessIdentity:
        return ProcessIdentity.from_json(self.store.get_json(f"leases/{lease_id}/owner.json"))

    def tree(self, lease_id: str) -> list[ProcessIdentity]:
        """The agent and all its living descendants."""
        root = psutil.Process(self.agent(lease_id).pid)
        found = [identify(each.pid) for each in (root, *root.children(recursive=True))]
        return [each for each in found if each is not None]

    def work_folder(self, lease_id: str) -> Path:
        assert self.settings is not None
        return self.settings.work_root / lease_id

    def start_agent_again(self, lease_id: str) -> subprocess.Popen[bytes]:
        """An agent started past the engine, as by a repeated user-data script."""
        assert self.settings is not None
        return spawn_agent(
            lease_id=lease_id, folder=self.work_folder(lease_id), command=AGENT_COMMAND, settings=self.settings
        )

    def forget(self) -> None:
        """The test has seen to it that nothing lives; the store cannot be asked any more."""
        self._forgotten = True

    def close(self) -> None:
        """End whatever a failed test left."""
        if self._forgotten:
            return
        for lease in self.engine.find():
            if self.store.exists(f"leases/{lease.lease_id}/owner.json"):
                kill_tree(self.agent(lease.lease_id))


def alive(identities: list[ProcessIdentity]) -> list[ProcessIdentity]:
    """Those that still run."""
    return [each for each in identities if is_alive(each)]


@contextmanager
def open_local_bench(store: ObjectStore, settings: Settings) -> Iterator[Bench]:
    """The local engine with fake jobs; whatever a test leaves running is ended."""
    bench = Bench(LocalEngine(store, settings, agent_command=AGENT_COMMAND, stop_grace_s=4.0), store, settings=settings)
    try:
        yield bench
    finally:
        bench.close()
