"""From the workload and its plan to the terms of its recovery. Pure."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from include.compute.capacity_choice.question import RecoveryTerms, Strategy
from include.config.workload import Workload
from include.core.contracts.plan import Criticality, Plan

# Until a training has shown how long it takes, it is reckoned with this much more than was predicted.
_PREDICTION_MARGIN = 1.05
_HOUR_S = 3600.0
_START_S = 60.0


def may_use_on_demand(workload: Workload) -> bool:
    """Whether on demand may stand in for spot: a deadline goes before the price of an exploratory run."""
    if workload.compute.purchase == "spot":
        return False
    return workload.criticality is not Criticality.EXPLORATORY or has_deadline(workload)


def has_deadline(workload: Workload) -> bool:
    """Whether the workload names one."""
    return workload.limits.deadline is not None or workload.limits.deadline_h is not None


def strategy_of(workload: Workload) -> tuple[Strategy, str]:
    """The strategy of a workload, and why it is this one."""
    asked = workload.compute.recovery
    if asked != "auto":
        return Strategy(asked), "as the workload asks"
    if workload.criticality is Criticality.CRITICAL or workload.compute.purchase == "on-demand":
        why = "critical" if workload.criticality is Criticality.CRITICAL else "purchase: on-demand"
        return Strategy.ON_DEMAND, why
    if has_deadline(workload):
        return Strategy.DEADLINE_AWARE, "since there is a deadline"
    return Strategy.GREEDY, f"{workload.criticality.value} without a deadline"


def work_terms(workload: Workload, *, home_region: str) -> RecoveryTerms:
    """Terms of the work lease: jobs without checkpoints and without a deadline of their own."""
    steady = workload.criticality is Criticality.CRITICAL or workload.compute.purchase == "on-demand"
    strategy = Strategy.ON_DEMAND if steady else Strategy.GREEDY
    return RecoveryTerms(strategy=strategy, chosen_by="work lease", job="", home_region=home_region)


def training_terms(
    workload: Workload,
    plan: Plan,
    *,
    started_at: str | None,
    checkpoint_bytes: int | None,
    home_region: str,
) -> RecoveryTerms:
    """Terms of a training.

    Args:
        workload: Its strategy, criticality and deadline.
        plan: What was predicted for the chosen offer.
        started_at: ISO time of the run's start, None where unknown.
        checkpoint_bytes: Size of a checkpoint, None where unknown.
        home_region: Region of the object store.
    """
    strategy, why = strategy_of(workload)
    parts, limits = plan.prediction.time_parts, workload.limits
    work_s = sum(parts.get(name, 0.0) for name in ("steps", "validation", "saves")) or plan.prediction.time_s
    interval_s = plan.checkpoint_every_steps * (plan.prediction.step_s or 0.0)
    saves = parts.get("steps", 0.0) / interval_s if interval_s else 0.0
    usd = plan.prediction.usd
    return RecoveryTerms(
        strategy=strategy,
        chosen_by=why,
        instances=plan.instances,
        work_s=None if work_s is None else work_s * _PREDICTION_MARGIN,
        started_s=None if started_at is None else datetime.fromisoformat(started_at).timestamp(),
        deadline_in_s=None if limits.deadline_h is None else limits.deadline_h * _HOUR_S,
        deadline_at_s=None if limits.deadline is None else limits.deadline.timestamp(),
        start_s=parts.get("start", _START_S),
        interval_s=interval_s,
        save_s=parts.get("saves", 0.0) / saves if saves else 0.0,
        checkpoint_bytes=checkpoint_bytes,
        home_region=home_region,
        usd=None if usd is None else Decimal(str(usd)),
    )
