"""An installation that rents from the EC2 double, with its ledger: where leases leak, and who ends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from include.compute.driver import JobDriver
from include.compute.engines.ec2 import Ec2Engine
from include.compute.engines.local import LocalEngine
from include.compute.engines.router import EngineRouter
from include.compute.holdings import Holdings
from include.compute.job_calls import Capacity
from include.config.settings import Settings
from include.core.clock import Clock, FakeClock
from include.core.contracts.lease import LaunchRequest
from include.core.ids import group_id
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from plimsoll.hooks.installation import Installation
from stack.ec2_double import Ec2Double, Instance, Machines, Market
from tests.support.ec2_rig import AMI, ON_DEMAND, SPOT, DoubleClients

DAG_ID = "digits"
RUN_ID = "manual__2026-01-01"
GROUP = group_id(dag_id=DAG_ID, run_id=RUN_ID, group="train")
_CENT = Decimal("0.01")
# What the candidates of the launch say, so that the ledger's prices are those of the bill.
_MARKET = Market.of(
    prices=[
        {"type": cand.instance_type, "purchase": cand.purchase, "usd_per_h": cand.usd_per_h}
        for cand in (SPOT, ON_DEMAND)
    ]
)


@dataclass(slots=True, kw_only=True)
class LeakSite:
    """One installation and its account.

    Attributes:
        folder: Everything it writes lies here.
        clock: Its time and that of the account.
        machines: What runs on instances; None is nothing that ever ends by itself.
        settings_over: Settings that differ.
        request_over: Fields of launch requests that differ.
    """

    folder: Path
    clock: Clock = field(default_factory=FakeClock)
    machines: Machines | None = None
    boot_s: float = 2.0
    shutdown_s: float = 30.0
    settings_over: dict[str, Any] = field(default_factory=dict)
    request_over: dict[str, Any] = field(default_factory=dict)
    double: Ec2Double = field(init=False)
    settings: Settings = field(init=False)
    store: ObjectStore = field(init=False)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        values = {
            "store": f"file://{self.folder / 'store'}",
            "ledger": f"sqlite:///{self.folder / 'ledger.db'}",
            "work_root": self.folder / "work",
            "engine": "ec2",
            "ec2_ami": AMI,
            "ec2_worker_image": "plimsoll-worker:1",
            "energy_meter": "estimate",
        }
        self.settings = Settings.model_validate({**values, **self.settings_over})
        migrate(self.settings.ledger)
        self.store = ObjectStore(self.settings.store)
        self.ledger = Ledger(self.settings.ledger, clock=self.clock)
        self.double = Ec2Double(
            self.clock, _MARKET, agents=self.machines, boot_s=self.boot_s, shutdown_s=self.shutdown_s, seed=11
        )

    def installation(self, **engine: Any) -> Installation:
        """Clients of a fresh process."""
        ec2 = Ec2Engine(self.store, self.settings, DoubleClients(self.double), clock=self.clock, **engine)
        router = EngineRouter(self.store, {"local": LocalEngine(self.store, self.settings), "ec2": ec2})
        driver = JobDriver(store=self.store, ledger=self.ledger, engine=router, preemption_budget=8, clock=self.clock)
        return Installation(settings=self.settings, store=self.store, ledger=self.ledger, engine=router, driver=driver)

    def holdings(self, **engine: Any) -> Holdings:
        """What the reaper and a cancellation look through."""
        place = self.installation(**engine)
        return Holdings(
            store=self.store,
            ledger=self.ledger,
            engine=place.engine,
            driver=place.driver,
            ec2=DoubleClients(self.double).reading(),
        )

    def capacity(self, *, group: str = GROUP, run_id: str = RUN_ID) -> Capacity:
        """The group of a run."""

        def request(lease_id: str, generation: int) -> LaunchRequest:
            values: dict[str, Any] = {
                "lease_id": lease_id,
                "group_id": group,
                "run_id": run_id,
                "dag_id": DAG_ID,
                "expires_after_s": 3600.0,
                "engine": "ec2",
                "instance_type": SPOT.instance_type,
                "purchase": SPOT.purchase,
                "usd_per_h": SPOT.usd_per_h,
                "candidates": (SPOT, ON_DEMAND),
            }
            return LaunchRequest(**{**values, **self.request_over})

        return Capacity(group_id=group, dag_id=DAG_ID, run_id=run_id, launch=request, candidates=(SPOT, ON_DEMAND))

    def rent(self, **names: str) -> str:
        """A lease of the run, launched as its setup does it."""
        lease = self.installation().driver.ensure_lease(self.capacity(**names), reopen=True)
        assert isinstance(lease, str)
        return lease

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.sleep(seconds)
        self.double.tick()

    def living(self) -> list[Instance]:
        """Instances that are not over."""
        return [each for each in self.double.instances() if each.state.value != "terminated"]

    def terminations(self) -> int:
        """How often anybody asked EC2 to terminate something."""
        return self.double.counters.get("ec2:TerminateInstances", 0)

    def assert_clean(self, *, run_id: str = RUN_ID) -> None:
        """Nothing lives, what was started has ended, no volume is left, and the ledger has the bill to the cent."""
        assert self.living() == []
        counters = self.double.counters
        assert counters["instances_started"] == counters["instances_ended"] > 0
        assert self.holdings().resources() == ()
        assert self.ledger.open_leases() == ()
        bill = sum((line.usd or Decimal(0) for line in self.double.bill()), Decimal(0))
        charges = self.ledger.charges(dag_id=DAG_ID, run_id=run_id)
        charged = sum((charge.effective_cost_usd or Decimal(0) for charge in charges), Decimal(0))
        assert (charged.quantize(_CENT), bill > 0) == (bill.quantize(_CENT), True)
