"""What terminal commands need to find and end what is rented: engines, ledger and clients, without Airflow."""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass
from typing import Any

from include.compute.driver import JobDriver
from include.compute.engines.ec2 import ENDED_WITHIN_S, STOP_GRACE_S, Ec2Engine
from include.compute.engines.local import LocalEngine
from include.compute.engines.router import EngineRouter
from include.compute.holdings import Holdings
from include.config.settings import Settings
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from stack import child_environment, credentials, record
from stack.airflow_api import AirflowApi
from stack.aws_clients import StackClients
from stack.installation import Installation, StackSettings
from stack.ports import WANTED, Ports


def ec2_engine(
    store: ObjectStore, settings: Settings, ports: Ports | None, *, patience_s: float = math.inf
) -> Ec2Engine | None:
    """The engine for EC2, None where the installation rents nothing there."""
    if settings.engine != "ec2":
        return None
    return Ec2Engine(
        store,
        settings,
        StackClients(settings.ec2_region, ports),
        stop_grace_s=min(STOP_GRACE_S, patience_s),
        ended_within_s=min(ENDED_WITHIN_S, patience_s),
    )


def router(
    store: ObjectStore, settings: Settings, ports: Ports | None, *, patience_s: float = math.inf
) -> EngineRouter:
    """All engines of the installation.

    Args:
        store: The object store.
        settings: Settings of the engine.
        ports: Ports of the stack, where it may have an EC2 double.
        patience_s: Longest wait for an agent's last words, and for the end of its instances.
    """
    rented = ec2_engine(store, settings, ports, patience_s=patience_s)
    engines: dict[str, Any] = {"local": LocalEngine(store, settings)}
    return EngineRouter(store, engines if rented is None else {**engines, "ec2": rented})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """An installation as a terminal command sees it.

    Attributes:
        settings: Settings of the engine.
        holdings: Where to look for what is rented, and through what to end it.
        airflow: Airflow as the administrator, None where no stack runs.
        problem: Why the ledger cannot be used, empty where it can.
    """

    settings: Settings
    holdings: Holdings
    airflow: AirflowApi | None
    problem: str = ""


def find_rented(stack_settings: StackSettings, *, patience_s: float = math.inf) -> Rented:
    """Everything that is needed to look for what an installation has rented, whether or not its stack runs.

    Args:
        stack_settings: Settings of the stack.
        patience_s: Longest wait for the last words of an agent on EC2, and for the end of its instances.

    Raises:
        SettingsError: The folder of the installation cannot be used.
    """
    installation = Installation.of(stack_settings)
    installation.create()
    state = record.read(installation)
    ports = state.chosen_ports if state else Ports(**WANTED)
    settings = _settings(installation, ports)
    store, ledger = ObjectStore(settings.store), Ledger(settings.ledger)
    engine = router(store, settings, ports, patience_s=patience_s)
    driver = JobDriver(store=store, ledger=ledger, engine=engine, preemption_budget=settings.preemption_budget)
    ec2 = StackClients(settings.ec2_region, ports).reading() if settings.engine == "ec2" else None
    return Rented(
        settings=settings,
        holdings=Holdings(store=store, ledger=ledger, engine=engine, driver=driver, ec2=ec2),
        airflow=_airflow(installation, ports) if state is not None and state.runs else None,
        problem=_ledger_problem(settings),
    )


def _settings(installation: Installation, ports: Ports) -> Settings:
    """Settings, also where a file lies in the place of the installation's own store.

    What is rented carries the name of the store, not its content, so it is found and ended without it.

    Raises:
        UserError: A setting of the person cannot be used.
    """
    own = installation.var / "store"
    if "PLIMSOLL_STORE" in os.environ or not own.is_file():
        return child_environment.settings_of(installation, ports)
    settings = child_environment.settings_of(installation, ports, os.environ | {"PLIMSOLL_STORE": f"file://{own}-gone"})
    return settings.model_copy(update={"store": f"file://{own}"})


def _airflow(installation: Installation, ports: Ports) -> AirflowApi:
    password = credentials.load_or_create(installation).password("admin")
    return AirflowApi(url=ports.url("airflow"), user="admin", password=password)


def _ledger_problem(settings: Settings) -> str:
    # What it does is of interest only when it fails.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        migrate(settings.ledger)
    except Exception as error:  # noqa: BLE001 - whatever the reason: what is rented is looked for all the same
        return f"the ledger cannot be used: {error}"
    return ""
