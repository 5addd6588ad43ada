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


def connect() -> Installation:
    """Build the clients of this process from the settings in its environment."""
    # Imports at run time, see the module docstring.
    from include.compute.driver import JobDriver
    from include.compute.engines.local import LocalEngine
    from include.compute.engines.router import EngineRouter
    from include.config.settings import Settings
    from include.core.store import ObjectStore
    from include.ledger.ledger import Ledger

    settings = Settings.from_environment()
    store = ObjectStore(settings.store)
    ledger = Ledger(settings.ledger)
    engine = EngineRouter(store, {"local": LocalEngine(store=store, settings=settings)})
    driver = JobDriver(
        store=store,
        ledger=ledger,
        engine=engine,
        preemption_budget=settings.preemption_budget,
        capacity_wait_s=settings.capacity_wait_s,
    )
    return Installation(settings=settings, store=store, ledger=ledger, engine=engine, driver=driver)
