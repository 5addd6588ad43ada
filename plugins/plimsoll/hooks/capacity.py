"""The capacity that jobs of a run may use: the shared control group of this machine, and the run's own groups."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from decimal import Decimal

from include.catalog.local import local_offer
from include.compute.capacity_choice.candidates import plan_candidates
from include.compute.capacity_choice.question import RecoveryTerms
from include.compute.capacity_choice.terms import may_use_on_demand, training_terms
from include.compute.driver import Capacity
from include.compute.launching import build_launch_request
from include.config.quota_file import load_quotas
from include.config.run_record import RunRecord
from include.core.clock import SystemClock
from include.core.contracts.lease import LaunchCandidate
from include.core.contracts.offer import Offer
from include.core.contracts.plan import Plan
from include.core.ids import digest, group_id
from include.ledger.ledger import IntentLimits
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.run_budget import run_budget
from plimsoll.hooks.run_context import CONTROL, read_plan

_TRAIN, _WORK = "train", "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the lease of a group may be launched.

    Attributes:
        offer: The best offer.
        candidates: Everything that would do; empty on this machine.
        terms: What the choice, and the budget of what is left, rest on; None where nobody predicted anything.
        instances: Instances of a lease.
        commit_usd: What the whole work is expected to spend, None where unknown.
        storage_bytes: Scratch space that the jobs need, None where unknown.
    """

    offer: Offer
    candidates: tuple[LaunchCandidate, ...] = ()
    terms: RecoveryTerms | None = None
    instances: int = 1
    commit_usd: Decimal | None = None
    storage_bytes: int | None = None


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
    """The group that holds the capacity of one run: ``train`` where it was planned, ``work`` where the settings say."""
    settings = installation.settings
    place = _within_quota(_place_of(run, group, installation), run, installation)
    gid = group_id(dag_id=run.dag_id, run_id=run.run_id, group=group)
    drill = run.options.interruption_at if run.options.interruption_drill and group == _TRAIN else None
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
            offer=place.offer,
            drill_at=drill,
            instances=place.instances,
            owner=run.workload.owner,
            storage_bytes=place.storage_bytes,
        ),
        limits=_limits(run, place, installation),
        candidates=place.candidates,
        terms=place.terms,
    )


def capacity_of(run: RunRecord, group: str, installation: Installation) -> Capacity:
    """Capacity of a group by name."""
    return control_capacity(installation) if group == CONTROL else run_capacity(run, group, installation)


def _place_of(run: RunRecord, group: str, installation: Installation) -> Place:
    plan = read_plan(run, installation) if group == _TRAIN else None
    if plan is not None:
        return _planned(run, plan, installation)
    if group == _WORK and installation.settings.engine == "ec2" and installation.settings.ec2_work_type:
        from plimsoll.hooks.work_capacity import work_place

        return work_place(run, installation)
    return Place(offer=_this_machine(installation))


def _planned(run: RunRecord, plan: Plan, installation: Installation) -> Place:
    demand = installation.store.get_json(f"{run.run_prefix}/demand.json") or {}
    region = installation.settings.ec2_region
    return Place(
        offer=plan.offer,
        candidates=plan_candidates(plan, on_demand_too=may_use_on_demand(run.workload), regions=(region,)),
        terms=training_terms(
            run.workload,
            plan,
            started_at=run.started_at,
            checkpoint_bytes=demand.get("checkpoint_bytes"),
            home_region=region,
        ),
        instances=plan.instances,
        commit_usd=None if plan.prediction.usd is None else Decimal(str(plan.prediction.usd)),
        storage_bytes=demand.get("disk_bytes"),
    )


def _within_quota(place: Place, run: RunRecord, installation: Installation) -> Place:
    """The place without candidates that the team's quota could never pay for; as it is where none would be left."""
    quota = load_quotas(installation.settings).get(run.workload.owner)
    if quota is None or quota.usd_per_h is None:
        return place
    at_most = quota.usd_per_h / place.instances
    kept = tuple(c for c in place.candidates if c.usd_per_h is None or Decimal(c.usd_per_h) <= at_most)
    return replace(place, candidates=kept) if kept else place


def _limits(run: RunRecord, place: Place, installation: Installation) -> IntentLimits:
    quotas, team = load_quotas(installation.settings), run.workload.owner
    prices = [Decimal(c.usd_per_h) for c in place.candidates if c.usd_per_h is not None]
    if not place.candidates and place.offer.price is not None:
        prices = [Decimal(place.offer.price.usd_per_h)]
    accelerators = max((c.accelerators for c in place.candidates), default=place.offer.accelerators)
    return IntentLimits(
        quota_leases=installation.settings.quota_leases,
        budget_usd=run_budget(run, installation),
        commit_usd=place.commit_usd,
        team=team,
        gpus=accelerators * place.instances,
        usd_per_h=max(prices) * place.instances if prices else None,
        quota=quotas.get(team),
        total=quotas.total,
        priority=quotas.priority(team, run.workload.criticality),
    )
