"""What a task knows of its run: the record in the store, results of earlier tasks, and the capacity it may use."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from include.catalog.local import local_offer
from include.compute.driver import Capacity
from include.compute.launching import build_launch_request
from include.config.run_record import RunRecord
from include.core.clock import SystemClock
from include.core.contracts.offer import Offer
from include.core.contracts.plan import Plan
from include.core.ids import digest, group_id, run_prefix
from include.core.json_codec import from_json
from include.ledger.ledger import IntentLimits
from plimsoll.hooks.installation import Installation

CONTROL = "control"
XCOM_LIMIT_BYTES = 10_000


def small_json(value: Any, *, what: str) -> Any:
    """Guard of everything that goes into XCom.

    Raises:
        AirflowFailException: The value is larger than 10 kB; large things belong in the object store.
    """
    size = len(json.dumps(value).encode())
    if size > XCOM_LIMIT_BYTES:
        raise AirflowFailException(f"{what}: {size} bytes for XCom, at most {XCOM_LIMIT_BYTES}; put it into the store")
    return value


def read_run(context: Any, installation: Installation) -> RunRecord:
    """Record of the run that a task belongs to.

    Raises:
        AirflowFailException: The first task has not written it.
    """
    ti = context["ti"]
    prefix = run_prefix(workload=ti.dag_id, run_id=ti.run_id)
    raw = installation.store.get_json(f"{prefix}/run.json")
    if raw is None:
        raise AirflowFailException(f"no {prefix}/run.json: clear the run from its first task `start`")
    return RunRecord.model_validate(raw)


def read_plan(run: RunRecord, installation: Installation) -> Plan | None:
    """Plan of the run, None before it was made."""
    raw = installation.store.get_json(f"{run.run_prefix}/plan.json")
    return None if raw is None else from_json(Plan, raw)


def _this_machine(installation: Installation) -> Offer:
    return local_offer(installation.settings, today=SystemClock().now().date())


def control_capacity(installation: Installation) -> Capacity:
    """The shared group of this machine: one agent that runs the light jobs of all runs, one at a time."""
    settings = installation.settings
    group = f"{CONTROL}-{digest(settings.store, settings.work_root)}"
    return Capacity(
        group_id=group,
        dag_id="",
        run_id="",
        launch=functools.partial(
            build_launch_request,
            settings=settings,
            group_id=group,
            dag_id="",
            run_id="",
            offer=_this_machine(installation),
            drill_at=None,
        ),
    )


def run_capacity(run: RunRecord, group: str, installation: Installation) -> Capacity:
    """The group that holds the capacity of one run: ``train`` on the planned offer, ``work`` on this machine."""
    settings = installation.settings
    plan = read_plan(run, installation)
    offer = plan.offer if plan is not None and group == "train" else _this_machine(installation)
    gid = group_id(dag_id=run.dag_id, run_id=run.run_id, group=group)
    drill = run.options.interruption_at if run.options.interruption_drill and group == "train" else None
    commit = plan.prediction.usd if plan is not None and group == "train" else None
    budget = run.workload.limits.budget_usd
    return Capacity(
        group_id=gid,
        dag_id=run.dag_id,
        run_id=run.run_id,
        launch=functools.partial(
            build_launch_request,
            settings=settings,
            group_id=gid,
            dag_id=run.dag_id,
            run_id=run.run_id,
            offer=offer,
            drill_at=drill,
        ),
        limits=IntentLimits(
            quota_leases=settings.quota_leases,
            budget_usd=None if budget is None else Decimal(str(budget)),
            commit_usd=None if commit is None else Decimal(str(commit)),
        ),
    )


def capacity_of(run: RunRecord, group: str, installation: Installation) -> Capacity:
    """Capacity of a group by name."""
    return control_capacity(installation) if group == CONTROL else run_capacity(run, group, installation)
