"""Operators connect to an installation in a temporary folder."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from include.catalog.local import local_offer
from include.config.loader import load_workload
from include.config.workload import Workload
from include.core.contracts.plan import Plan
from include.core.ids import run_prefix
from include.core.json_codec import to_json
from include.sizing.planner import make_plan
from plimsoll.hooks.installation import Installation
from tests.support.offers import demand
from tests.support.task_context import DAG_ID, RUN_ID, installation

REPO = Path(__file__).resolve().parents[3]
_USERS = (
    "plimsoll.operators.run_job",
    "plimsoll.operators.provision_gpu",
    "plimsoll.operators.wait_for_lease",
    "plimsoll.operators.start_run",
    "plimsoll.operators.checks",
    "plimsoll.operators.plan_training",
    "plimsoll.operators.seal",
    "plimsoll.operators.lease_reaper",
    "plimsoll.operators.storage_lifecycle",
    "plimsoll.operators.price_refresh",
    "plimsoll.notifiers.capacity_notifier",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    found = installation(tmp_path)
    for module in _USERS:
        monkeypatch.setattr(f"{module}.connect", lambda: found)
    return found


@pytest.fixture(scope="session")
def digits() -> Workload:
    return load_workload(REPO / "include" / "workloads" / "digits.yaml")


@pytest.fixture
def planned(place: Installation, digits: Workload) -> Plan:
    today = date(2026, 11, 30)
    plan = make_plan(
        demand=demand(),
        offers=(local_offer(place.settings, today=today),),
        workload=digits,
        settings=place.settings,
        today=today,
    )
    place.store.put_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/plan.json", to_json(plan))
    return plan
