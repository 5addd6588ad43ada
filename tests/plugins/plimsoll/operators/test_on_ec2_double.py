"""The operators on the real EC2 engine and its double: no capacity, reclaimed machines, killed workers, clears, ends.

After each: every instance that was started has ended, and the ledger agrees with the double's own bill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from include.compute.driver import JobDriver
from include.compute.engines.router import EngineRouter
from include.config.workload import Workload
from include.core.clock import FakeClock, iso
from include.core.contracts.offer import PurchaseOption
from include.core.ids import group_id, run_prefix
from include.core.json_codec import to_json
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from include.sizing.planner import make_plan
from plimsoll.hooks.installation import Installation
from plimsoll.operators.provision_gpu import ProvisionGpuOperator, ReleaseGpuOperator
from plimsoll.operators.resumable_training import ResumableTrainingOperator
from plimsoll.operators.wait_for_lease import WaitForLeaseOperator
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.job_trigger import JobTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger
from stack.ec2_double import Market
from tests.support.ec2_rig import Rig
from tests.support.fake_engine import FakeEngine
from tests.support.offers import demand, offer
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

GROUP = group_id(dag_id=DAG_ID, run_id=RUN_ID, group="train")
RUN = {"dag_id": DAG_ID, "run_id": RUN_ID}
DATASET = {"uri": "file:///d/manifest.json", "fingerprint": "abc", "rows": {"train": 10, "validation": 2, "test": 3}}
MINUTE = 60.0
_USERS = ("provision_gpu", "wait_for_lease", "run_job")


class World:
    """One run on EC2; its clock is moved by hand."""

    def __init__(self, folder: Path, market: Market | None) -> None:
        # The operators read the machine's clock; the ledger's and the double's have to agree with it.
        self.clock = FakeClock(current=datetime.now(UTC))
        self.rig = Rig(folder=folder, market=market, clock=self.clock, settings_over={"quota_file": ""})
        settings = self.rig.settings.model_copy(update={"ledger": f"sqlite:///{folder / 'ledger.db'}"})
        migrate(settings.ledger)
        ledger, store = Ledger(settings.ledger, clock=self.clock), self.rig.store
        engine = EngineRouter(store, {"local": FakeEngine(), "ec2": self.rig.engine})
        driver = JobDriver(store=store, ledger=ledger, engine=engine, preemption_budget=8, clock=self.clock)
        self.place = Installation(settings=settings, store=store, ledger=ledger, engine=engine, driver=driver)
        self.ti = FakeTaskInstance(xcoms={"prepare": {"dataset": DATASET}})

    def plan(self, workload: Workload) -> None:
        write_run(self.place, workload)
        on_demand = offer(instance_type="g5.xlarge", usd="1.006", vcpus=4)
        spot = [
            replace(on_demand, purchase=PurchaseOption.SPOT, zone=f"us-east-1{letter}", price=offer(usd="0.40").price)
            for letter in "ab"
        ]
        today = self.clock.now().date()
        plan = make_plan(
            demand=demand(), offers=(*spot, on_demand), workload=workload, settings=self.place.settings, today=today
        )
        assert plan.offer.purchase is PurchaseOption.SPOT
        self.place.store.put_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/plan.json", to_json(plan))

    def provision(self) -> dict[str, Any]:
        return ProvisionGpuOperator(task_id="provision", group="train").execute(context(self.ti))

    def wait(self) -> Any:
        """One move of a fresh process that waits for the lease: its result, or its trigger."""
        return self._move(lambda: WaitForLeaseOperator(task_id="w", group="train").execute(context(self.ti)))

    def train(self, event: dict[str, Any] | None = None) -> Any:
        """One move of a fresh process that trains."""
        operator = ResumableTrainingOperator(task_id="train")
        if event is None:
            return self._move(lambda: operator.execute(context(self.ti)))
        return self._move(lambda: operator.resume(context(self.ti), event))

    @staticmethod
    def _move(move: Callable[[], Any]) -> Any:
        try:
            return move()
        except TaskDeferred as deferred:
            return deferred.trigger

    def release(self) -> None:
        ReleaseGpuOperator(task_id="release", group="train").execute(context(self.ti))

    def boot(self, lease: str) -> None:
        self.rig.boot(lease)
        beat = {"sequence": 1, "at": iso(self.clock.now()), "state": "idle"}
        self.place.store.put_json(f"leases/{lease}/heartbeat.json", beat)

    def reclaim(self) -> None:
        """EC2 takes the machine away without a word."""
        [instance] = self.rig.living()
        self.rig.double.interrupt(instance.instance_id, notice_s=0.0)
        self.rig.wait(MINUTE)

    @property
    def lease(self) -> str:
        found = self.place.ledger.open_lease(GROUP)
        assert found is not None
        return found

    def assert_nothing_left(self) -> None:
        self.rig.wait(5 * MINUTE)
        assert self.rig.living() == []
        assert self.place.ledger.open_leases() == ()
        billed = sum((each.usd for each in self.rig.double.bill()), Decimal(0))
        charged = self.place.ledger.totals(**RUN).known_part.usd
        assert abs(billed - charged) < Decimal("0.01")


@pytest.fixture
def worlds(tmp_path: Path, digits: Workload, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    made = []

    def build(market: Market | None = None) -> World:
        world = World(tmp_path, market)
        for module in _USERS:
            monkeypatch.setattr(f"plimsoll.operators.{module}.connect", lambda: world.place)
        limits = digits.limits.model_copy(update={"max_gco2e": None})
        compute = digits.compute.model_copy(update={"purchase": "spot", "engine": "ec2"})
        world.plan(digits.model_copy(update={"compute": compute, "limits": limits}))
        made.append(world)
        return world

    yield build
    for world in made:
        world.rig.double.close()


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    return worlds()


def test_from_launch_to_release(world: World) -> None:
    launched = world.provision()
    assert launched["state"] == "launched"
    trigger = world.wait()
    assert isinstance(trigger, LeaseReadyTrigger)
    [instance] = world.rig.living()
    assert trigger.instances == {"region": "us-east-1", "ids": [instance.instance_id]}
    world.boot(launched["lease_id"])
    assert world.wait() == launched["lease_id"]
    watch = world.train()
    assert isinstance(watch, JobTrigger)
    assert watch.instances == trigger.instances
    world.release()
    world.assert_nothing_left()


def test_capacity_that_comes_later_is_taken(worlds: Callable[..., World]) -> None:
    none_yet = [{"purchase": purchase, "instances": 0, "until_s": 600} for purchase in ("spot", "on-demand")]
    world = worlds(Market.of(capacity=none_yet))
    assert world.provision()["state"] == "waiting"
    waits = [world.wait() for _ in range(2)]
    assert all(isinstance(each, CapacityTrigger) and each.retry_after_s > 0 for each in waits)
    shown = world.ti.pushed["capacity"]
    assert shown["state"] == "waiting"
    assert any("g5.xlarge" in refusal and "us-east-1a" in refusal for refusal in shown["tried"])
    assert world.rig.living() == []
    world.rig.wait(11 * MINUTE)
    assert isinstance(world.wait(), LeaseReadyTrigger)
    assert len(world.rig.living()) == 1
    world.release()
    world.assert_nothing_left()


def test_a_wait_that_took_too_long_fails_and_a_clear_grants_another(worlds: Callable[..., World]) -> None:
    world = worlds(Market.of(capacity=[{"purchase": purchase, "instances": 0} for purchase in ("spot", "on-demand")]))
    assert world.provision()["state"] == "waiting"
    assert isinstance(world.wait(), CapacityTrigger)
    world.rig.wait(61 * MINUTE)
    with pytest.raises(AirflowFailException, match="no capacity came in time"):
        world.wait()
    world.release()
    assert world.provision()["state"] == "waiting", "a clear begins anew"
    assert isinstance(world.wait(), CapacityTrigger)
    world.release()
    world.assert_nothing_left()


def test_a_run_that_is_ended_while_it_waits_never_gets_a_machine(worlds: Callable[..., World]) -> None:
    none_yet = [{"purchase": purchase, "instances": 0, "until_s": 600} for purchase in ("spot", "on-demand")]
    world = worlds(Market.of(capacity=none_yet))
    world.provision()
    world.release()
    world.rig.wait(11 * MINUTE)
    with pytest.raises(AirflowFailException, match="released"):
        world.wait()
    assert world.rig.double.instances() == ()
    world.assert_nothing_left()


def test_a_machine_that_is_reclaimed_while_it_comes_up_is_replaced(world: World) -> None:
    first = world.provision()["lease_id"]
    world.reclaim()
    trigger = world.wait()
    assert isinstance(trigger, LeaseReadyTrigger)
    assert trigger.lease_id != first
    assert len(world.rig.living()) == 1
    world.boot(trigger.lease_id)
    assert world.wait() == trigger.lease_id
    world.release()
    world.assert_nothing_left()


def test_a_machine_that_is_reclaimed_under_its_job_is_replaced_once(world: World) -> None:
    world.provision()
    world.boot(world.lease)
    first = world.train()
    world.reclaim()
    lost = {"status": "lost", "lease_id": first.lease_id, "base": first.base, "printed": 0, "why": "terminated"}
    second = world.train(lost)
    again = world.train(lost)
    assert second.lease_id == again.lease_id != first.lease_id
    assert second.base.endswith("/jobs/train-2")
    assert len(world.rig.living()) == 1
    world.release()
    world.assert_nothing_left()


def test_killed_workers_and_clears_come_back_to_the_same_machine(world: World) -> None:
    """Whatever process dies and whichever task is cleared: the next one finds the lease and the attempt."""
    first = world.provision()
    assert world.provision() == first
    assert world.wait().lease_id == world.wait().lease_id == first["lease_id"]
    world.boot(first["lease_id"])
    watches = [world.train() for _ in range(3)]
    assert {(watch.lease_id, watch.base) for watch in watches} == {(first["lease_id"], watches[0].base)}
    assert world.provision() == first, "cleared with its setup"
    assert len(world.rig.double.instances()) == 1
    world.release()
    world.assert_nothing_left()


def test_a_cleared_run_gets_the_next_machine_after_its_release(world: World) -> None:
    first = world.provision()["lease_id"]
    world.boot(first)
    world.release()
    second = world.provision()["lease_id"]
    assert second != first
    assert len(world.rig.living()) == 1
    world.boot(second)
    world.release()
    world.assert_nothing_left()


def test_a_recovery_that_races_with_the_end_of_its_run_gets_no_machine(world: World) -> None:
    world.provision()
    world.boot(world.lease)
    watch = world.train()
    world.reclaim()
    world.release()
    lost = {"status": "lost", "lease_id": watch.lease_id, "base": watch.base, "printed": 0, "why": "terminated"}
    with pytest.raises(AirflowFailException, match="released"):
        world.train(lost)
    assert len(world.rig.double.instances()) == 1
    world.assert_nothing_left()


def test_a_setup_that_is_killed_ends_its_machine(world: World) -> None:
    setup = ProvisionGpuOperator(task_id="provision", group="train")
    setup.execute(context(world.ti))
    setup.on_kill()
    world.assert_nothing_left()
