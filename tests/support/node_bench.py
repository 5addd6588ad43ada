"""A lease of several instances, each an agent of this machine with a metadata endpoint of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from include.compute.engines.local import LocalEngine
from include.compute.engines.local_process import agent_environment
from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import ENDPOINT_VARIABLE
from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.contracts.lease import JobTicket, LaunchRequest
from include.core.json_codec import to_json
from include.core.process import ProcessIdentity, identify, kill_tree
from include.core.store import ObjectStore
from tests.support.lease_bench import Bench
from tests.support.node_agent import NODE_COMMAND
from tests.support.waiting import eventually

LEASE = "train-abc-g1"


class NodeBench(Bench):
    """Starts the agents of one lease and drives it as operators do."""

    def __init__(self, store: ObjectStore, settings: Settings) -> None:
        super().__init__(LocalEngine(store, settings, stop_grace_s=8.0), store, settings=settings)
        self.emulators: list[MetadataEmulator] = []
        self.agents: list[subprocess.Popen[bytes]] = []

    def start(self, nodes: int = 2, **fields: Any) -> None:
        """Launch the lease and wait until every node has its place, in order of rank."""
        spec: LaunchRequest = self.request(instances=nodes, **fields)
        self.store.create_json(f"leases/{LEASE}/spec.json", to_json(spec))
        for rank in range(nodes):
            self.start_node()
            eventually(lambda rank=rank: self.store.exists(f"leases/{LEASE}/nodes/{rank}.json"), what="a place")

    def start_node(self) -> subprocess.Popen[bytes]:
        """One more agent of the lease."""
        assert self.settings is not None
        number = len(self.agents)
        facts = InstanceFacts(instance_id=f"i-{number}", instance_type="g5.xlarge", life_cycle="spot")
        emulator = MetadataEmulator(facts)
        emulator.start()
        self.emulators.append(emulator)
        folder = self.settings.work_root / f"instance-{number}"
        folder.mkdir(parents=True)
        with (folder / "agent.out").open("ab") as output:
            agent = subprocess.Popen(
                [*NODE_COMMAND, LEASE],
                cwd=folder,
                env=agent_environment(self.settings) | {ENDPOINT_VARIABLE: emulator.url, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.agents.append(agent)
        return agent

    def train(self, request: JobRequest) -> str:
        """Queue a training; returns its base."""
        base = request.base
        name = base.rpartition("/")[2]
        ticket = JobTicket(name=name, kind="train", base=base, request_uri=self.store.uri(f"{base}/request.json"))
        self.engine.submit(LEASE, ticket, request.model_dump(mode="json"))
        return base

    def output(self, number: int) -> str:
        assert self.settings is not None
        return (self.settings.work_root / f"instance-{number}" / "agent.out").read_text()

    def everything(self) -> list[ProcessIdentity]:
        """All agents that live, and all their descendants."""
        import psutil

        found = []
        for agent in self.agents:
            if agent.poll() is None:
                root = psutil.Process(agent.pid)
                found += [identify(each.pid) for each in (root, *root.children(recursive=True))]
        return [each for each in found if each is not None]

    def node_log(self, base: str, rank: int) -> str:
        keys = sorted(key for key, _ in self.store.list(f"{base}/log-{rank}"))
        return b"".join(self.store.get(key) or b"" for key in keys).decode()

    def close(self) -> None:
        """End whatever a failed test left; what the agents said goes into the report of a failure."""
        for number in range(len(self.agents)):
            print(f"--- agent {number}\n{self.output(number)}")
        for agent in self.agents:
            identity = identify(agent.pid)
            if agent.poll() is None and identity is not None:
                kill_tree(identity)
            agent.wait(timeout=10)
        for emulator in self.emulators:
            emulator.stop()


@contextmanager
def open_node_bench(store: ObjectStore, settings: Settings) -> Iterator[NodeBench]:
    bench = NodeBench(store, settings)
    try:
        yield bench
    finally:
        bench.close()
