"""Store, ledger and engine of this installation, built where they are used and never before a fork."""

from __future__ import annotations

from dataclasses import dataclass

from include.compute.driver import JobDriver
from include.compute.engine import Engine
from include.compute.local import LocalEngine
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


def connect() -> Installation:
    """Build the clients of this process from the settings in its environment."""
    settings = Settings.from_environment()
    store = ObjectStore(settings.store)
    ledger = Ledger(settings.ledger)
    engine = LocalEngine(store=store, settings=settings)
    driver = JobDriver(store=store, ledger=ledger, engine=engine, preemption_budget=settings.preemption_budget)
    return Installation(settings=settings, store=store, ledger=ledger, engine=engine, driver=driver)
