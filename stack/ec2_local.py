"""``make run ENGINE=ec2-local``: the engine for EC2, renting from the EC2 double on this machine.

Nothing of it needs an account, and nothing of it reaches a cloud: the endpoints of EC2, Pricing and Service Quotas
point to the double, with credentials that are none.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from include.compute.launching import drill_fraction
from include.config.run_options import RunOptions
from include.config.settings import Settings
from include.core.clock import SystemClock
from include.core.errors import PlimsollError
from include.core.store import ObjectStore
from stack.airflow_api import request
from stack.errors import StackError
from stack.ports import Ports

if TYPE_CHECKING:
    from include.catalog.refresh import AwsClients

REGION = "us-east-1"
# The double does not look at machine images and containers.
_AMI = "ami-12c6146b"
_IMAGE = "plimsoll-worker:none"
# The bundled list has prices for types with accelerators alone, and an unknown price would leave the cost unknown.
_WORK_TYPE = "g4dn.xlarge"
_ENDPOINTS = ("EC2", "PRICING", "SERVICE_QUOTAS")
# Where the drill interrupts the training's first and second attempt, which wait for it there.
INTERRUPTED_AT = tuple(
    drill_fraction(RunOptions().interruption_at, generation, engine="ec2") or 0.0 for generation in (1, 2)
)
_LOOK_EVERY_S = 0.05
_TIMEOUT_S = 5.0


def settings_variables() -> dict[str, str]:
    """Settings of an installation that rents from the double."""
    return {
        "PLIMSOLL_ENGINE": "ec2",
        "PLIMSOLL_EC2_REGION": REGION,
        "PLIMSOLL_EC2_AMI": _AMI,
        "PLIMSOLL_EC2_WORKER_IMAGE": _IMAGE,
        "PLIMSOLL_EC2_WORK_TYPE": _WORK_TYPE,
        "PLIMSOLL_CATALOG_REGIONS": REGION,
    }


def client_variables(ports: Ports) -> dict[str, str]:
    """What points AWS clients to the double."""
    url = ports.url("ec2")
    return {
        **{f"AWS_ENDPOINT_URL_{service}": url for service in _ENDPOINTS},
        "AWS_ACCESS_KEY_ID": "ec2-double",
        "AWS_SECRET_ACCESS_KEY": "ec2-double",
        "AWS_DEFAULT_REGION": REGION,
    }


def refuse_buckets(settings: Settings) -> None:
    """The double's credentials would hide those of a bucket.

    Raises:
        StackError: The store is not a folder.
    """
    if not settings.store.startswith("file://"):
        raise StackError(
            f"ENGINE=ec2-local keeps its store in a folder | found: PLIMSOLL_STORE={settings.store} | "
            "do: leave PLIMSOLL_STORE unset"
        )


def refresh_prices(settings: Settings, clients: AwsClients, say: Callable[[str], None]) -> None:
    """Ask the double for types and prices, as the DAG of prices asks AWS.

    Raises:
        StackError: Its answers make no catalog.
    """
    from include.catalog.refresh import refresh_catalog  # noqa: PLC0415 - only this kind of stack needs it

    began = time.monotonic()
    try:
        report = refresh_catalog(
            store=ObjectStore(settings.store),
            clients=clients,
            regions=(REGION,),
            now=SystemClock().now(),
        )
    except PlimsollError as error:
        raise StackError(f"The EC2 double's prices cannot be used: {error}") from error
    say(
        f"The EC2 double lists {report.types} types, {report.on_demand_prices} on-demand and {report.spot_prices} spot "
        f"prices ({time.monotonic() - began:.1f} s)"
    )


@dataclass(slots=True, kw_only=True)
class Interruptions:
    """Takes the spot instance of a training away once per attempt, when the attempt is far enough.

    Attributes:
        ports: Where the double listens.
        store: Where heartbeats and leases are.
        prefix: Store prefix of the run.
        at: Fraction of the training at which each interruption comes, in order.
        notice_s: Seconds between the notice and the end.
        done: Leases that were interrupted.
    """

    ports: Ports
    store: ObjectStore
    prefix: str
    at: tuple[float, ...]
    notice_s: float = 20.0
    done: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Interrupt the running attempt if it is its turn."""
        if len(self.done) >= len(self.at):
            return
        beat = self.store.get_json(f"{self.prefix}/jobs/train-{len(self.done) + 1}/heartbeat.json") or {}
        fraction = (beat.get("progress") or {}).get("fraction")
        if beat.get("state") != "running" or not isinstance(fraction, int | float):
            return
        if fraction >= self.at[len(self.done)] and (lease := self._lease()):
            self._interrupt(lease)

    def _lease(self) -> str | None:
        """The training's lease that lives and was not interrupted yet."""
        status, text = request("GET", f"{self.ports.url('ec2')}/_double/instances", timeout_s=_TIMEOUT_S)
        if status != HTTPStatus.OK:
            return None
        for instance in json.loads(text):
            lease = str(instance["tags"].get("plimsoll:lease", ""))
            if instance["state"] == "running" and lease.startswith("train-") and lease not in self.done:
                return lease
        return None

    def _interrupt(self, lease: str) -> None:
        url = f"{self.ports.url('ec2')}/_double/interrupt"
        status, _ = request("POST", url, body={"lease": lease, "notice_s": self.notice_s}, timeout_s=_TIMEOUT_S)
        if status == HTTPStatus.OK:
            self.done.append(lease)


@contextmanager
def interrupting(interruptions: Interruptions) -> Iterator[None]:
    """Look for the next interruption in a thread while the run is followed."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_EVERY_S):
            interruptions.look()

    thread = threading.Thread(target=watch, name="interruptions", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_TIMEOUT_S)
