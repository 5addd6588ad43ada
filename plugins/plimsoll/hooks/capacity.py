"""The capacity that jobs of a run may use: the shared control group of this machine, and the run's own groups."""

from __future__ import annotations

import functools
from decimal import Decimal

from include.catalog.local import local_offer
from include.compute.driver import Capacity
from include.compute.launching import build_launch_request
from include.config.run_record import RunRecord
from include.core.clock import SystemClock
from include.core.contracts.offer import Offer
from include.core.ids import digest, group_id
from include.ledger.ledger import IntentLimits
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.run_context import CONTROL, read_plan


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
