"""The EC2 engine passes the suite of engines, with real agents as processes on the double's instances."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from include.compute.engines.ec2 import Ec2Engine
from include.config.settings import Settings
from include.core.contracts.lease import LaunchRequest, LeaseState
from include.core.store import ObjectStore
from stack.ec2_double import Ec2Double
from stack.ec2_double.agent_host import AgentHost
from tests.include.compute.engines.engine_suite import EngineSuite
from tests.support.ec2_rig import AMI, ON_DEMAND, SPOT, DoubleClients
from tests.support.fake_agent import AGENT_COMMAND
from tests.support.lease_bench import Bench
from tests.support.waiting import eventually

_FOR_BUCKETS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_REGION",
)  # fmt: skip


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.long)])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Agents on S3 are shown with the local engine; here they only take longer."""
    return request.getfixturevalue(f"{request.param}_store")


class Ec2Bench(Bench):
    """Requests name the engine and its candidates."""

    def request(self, group: str = "train-abc", generation: int = 1, **fields: Any) -> LaunchRequest:
        return super().request(group, generation, **{"engine": "ec2", "candidates": (SPOT, ON_DEMAND), **fields})

    def close(self) -> None:
        """The double ends what it runs."""


@pytest.fixture
def double(any_store: ObjectStore, tmp_path: Path) -> Iterator[Ec2Double]:
    environment = {name: os.environ[name] for name in _FOR_BUCKETS if name in os.environ}
    host = AgentHost(tmp_path / "instances", environment=environment, command=AGENT_COMMAND)
    double = Ec2Double(agents=host, boot_s=0.2, shutdown_s=0.2)
    yield double
    double.close()


@pytest.mark.integration
class TestEc2Engine(EngineSuite):
    """The suite, with agents counted by the instances that run one."""

    @pytest.fixture
    def bench(self, any_store: ObjectStore, settings_for: Callable[..., Settings], double: Ec2Double) -> Ec2Bench:
        self.double = double
        settings = settings_for(any_store, engine="ec2", ec2_ami=AMI, ec2_worker_image="plimsoll-worker:1")
        engine = Ec2Engine(any_store, settings, DoubleClients(double), stop_grace_s=6.0, look_every_s=0.05)
        return Ec2Bench(engine, any_store, settings=settings)

    def agents(self, bench: Bench) -> int:
        assert isinstance(self.double.machines, AgentHost)
        running = {each.instance_id for each in self.double.instances() if each.is_live}
        return len(running & set(self.double.machines.pids))

    def test_there_is_an_offer(self, bench: Bench):
        assert bench.engine.offers(None) == (), "the catalog lists what EC2 sells"

    def test_an_agent_that_leaves_takes_its_machine_along(self, bench: Bench):
        lease = bench.launch(idle_s=0.5)
        eventually(lambda: bench.state(lease) is LeaseState.ENDED, what="the lease is over")
        eventually(lambda: self.agents(bench) == 0, what="the machine is down")
        assert bench.lease_beat(lease)["reason"] == "idle"

    def test_a_machine_that_is_taken_away_ends_its_lease(self, bench: Bench):
        lease = bench.launch()
        base = bench.submit(lease, steps=400, step_s=0.05)
        bench.working(lease, base)
        (instance,) = self.double.instances()
        self.double.interrupt(instance.instance_id, notice_s=5)
        eventually(lambda: bench.state(lease) is LeaseState.ENDED, what="the lease is over")
        assert bench.engine.poll(lease, base).exit_code == 75
        assert bench.lease_beat(lease)["reason"] == "preempted"
