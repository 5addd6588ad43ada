"""The EC2 engine on the EC2 double with a clock that is moved by hand: no processes, no sockets, no waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from include.compute.ec2.launch_log import LaunchLog
from include.compute.ec2.tags import installation_of
from include.compute.engines.ec2 import Ec2Engine
from include.config.settings import Settings
from include.core.clock import FakeClock, iso
from include.core.contracts.lease import LaunchCandidate, LaunchRequest, LeaseState
from include.core.store import ObjectStore
from stack.ec2_double import Ec2Double, Instance, Market
from stack.ec2_double.client import in_process_client
from stack.ec2_double.errors import Answer

REGION = "us-east-1"
AMI = "ami-12c6146b"
LEASE = "train-abc-g1"


def candidate(kind: str, purchase: str, zone: str = "", **fields: Any) -> LaunchCandidate:
    """A candidate in a zone by its letter, or in any."""
    values = {"usd_per_h": "1.00", "vcpus": 4, **fields}
    return LaunchCandidate(
        instance_type=kind, purchase=purchase, region=REGION, zone=f"{REGION}{zone}" if zone else None, **values
    )


SPOT = candidate("g5.xlarge", "spot", usd_per_h="0.40", list_usd_per_h="1.006", price={"price_source": "test"})
ON_DEMAND = candidate("g5.xlarge", "on-demand", usd_per_h="1.006")


class _Line:
    """Clients of the process, made once because that takes half a second; they talk to the double named last."""

    def __init__(self) -> None:
        self.double: Ec2Double | None = None
        self._made: dict[str, Any] = {}

    def handle(self, *request: Any) -> Answer:
        assert self.double is not None
        return self.double.handle(*request)

    def client(self, service: str) -> Any:
        if service not in self._made:
            self._made[service] = in_process_client(self.handle, service=service, region=REGION)
        return self._made[service]


_LINE = _Line()


class DoubleClients:
    """Clients of a double, as the engine is given them."""

    def __init__(self, double: Ec2Double, *, launching: Callable[[Any], Any] = lambda client: client) -> None:
        _LINE.double = double
        self._launching = launching

    def launching(self) -> Any:
        return self._launching(_LINE.client("ec2"))

    def reading(self) -> Any:
        return _LINE.client("ec2")

    def quotas(self) -> Any:
        return _LINE.client("service-quotas")


@dataclass(slots=True, kw_only=True)
class Rig:
    """One installation on one account."""

    folder: Path
    market: Market | None = None
    boot_s: float = 20.0
    visible_after_s: float = 0.0
    settings_over: dict[str, Any] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    double: Ec2Double = field(init=False)
    settings: Settings = field(init=False)
    store: ObjectStore = field(init=False)
    engine: Ec2Engine = field(init=False)

    def __post_init__(self) -> None:
        values = {"ec2_ami": AMI, "ec2_worker_image": "plimsoll-worker:1", "engine": "ec2", **self.settings_over}
        self.settings = Settings.model_validate({"store": f"file://{self.folder / 'store'}", **values})
        self.double = Ec2Double(
            self.clock, self.market, boot_s=self.boot_s, shutdown_s=30.0, visible_after_s=self.visible_after_s, seed=7
        )
        self.store = ObjectStore(self.settings.store)
        self.engine = self.another_process()

    def another_process(self, **clients: Any) -> Ec2Engine:
        """An engine that remembers nothing."""
        return Ec2Engine(self.store, self.settings, DoubleClients(self.double, **clients), clock=self.clock)

    def request(self, lease: str = LEASE, *candidates: LaunchCandidate, **fields: Any) -> LaunchRequest:
        values: dict[str, Any] = {
            "lease_id": lease,
            "group_id": lease.rpartition("-g")[0],
            "run_id": "run-1",
            "dag_id": "digits",
            "expires_after_s": 3600.0,
            "engine": "ec2",
            "candidates": candidates or (SPOT, ON_DEMAND),
        }
        return LaunchRequest(**{**values, **fields})

    def log(self, lease: str = LEASE) -> LaunchLog:
        return LaunchLog(
            store=self.store, lease_id=lease, installation=installation_of(self.store.url), clock=self.clock
        )

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.double.tick()

    def boot(self, lease: str = LEASE) -> None:
        """The instances run, and an agent owns the lease."""
        self.wait(self.boot_s + 1)
        self.store.create_json(f"leases/{lease}/owner.json", {"born": iso(self.clock.now())})

    def last_word(self, reason: str, lease: str = LEASE) -> None:
        """The agent has left."""
        beat = {"sequence": 9, "at": iso(self.clock.now()), "state": "ended", "reason": reason}
        self.store.put_json(f"leases/{lease}/heartbeat.json", beat)

    def state(self, lease: str = LEASE) -> LeaseState:
        return self.engine.describe(lease).state

    def living(self) -> list[Instance]:
        return [each for each in self.double.instances() if each.is_live]

    def calls(self, action: str) -> int:
        return self.double.counters.get(f"ec2:{action}", 0)

    def fleets(self) -> int:
        """CreateFleet calls that were no dry run: the first launch of a lease makes one dry run."""
        return self.calls("CreateFleet") - self.calls("CreateTags")


def in_zones(cand: LaunchCandidate, letters: str) -> tuple[LaunchCandidate, ...]:
    """The same candidate in several zones."""
    return tuple(replace(cand, zone=f"{REGION}{letter}") for letter in letters)
