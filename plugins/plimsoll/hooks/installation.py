"""Store, ledger and engine of this installation, built where they are used and never before a fork.

The engine's modules are imported when an operator runs, not when a DAG file is parsed: a parse is paid for every few
seconds, and again by each task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from include.compute.driver import JobDriver
    from include.compute.engine import Engine
    from include.config.settings import Settings
    from include.core.store import ObjectStore
    from include.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What an operator needs to act."""

    settings: Settings
    store: ObjectStore
    ledger: Ledger
    engine: Engine
    driver: JobDriver


def engines_of(store: ObjectStore, settings: Settings) -> dict[str, Engine]:
    """Engines that an installation may launch on: this machine always, EC2 where it rents there."""
    from include.compute.engines.local import LocalEngine

    engines: dict[str, Engine] = {LocalEngine.name: LocalEngine(store=store, settings=settings)}
    if settings.engine == "ec2":
        from include.compute.engines.ec2 import Ec2Engine
        from plimsoll.hooks.aws_clients import EngineClients

        engines[Ec2Engine.name] = Ec2Engine(store, settings, EngineClients(settings.ec2_region))
    return engines


def connect() -> Installation:
    """Build the clients of this process from the settings in its environment."""
    # Imports at run time, see the module docstring.
    from include.compute.driver import JobDriver
    from include.compute.engines.router import EngineRouter
    from include.config.settings import Settings
    from include.core.store import ObjectStore
    from include.ledger.ledger import Ledger

    settings = Settings.from_environment()
    store = ObjectStore(settings.store)
    ledger = Ledger(settings.ledger)
    engine = EngineRouter(store, engines_of(store, settings))
    driver = JobDriver(
        store=store,
        ledger=ledger,
        engine=engine,
        preemption_budget=settings.preemption_budget,
        capacity_wait_s=settings.capacity_wait_s,
    )
    return Installation(settings=settings, store=store, ledger=ledger, engine=engine, driver=driver)
