"""From a task to the driver: builds the job's call and its request. Imported when a task runs, never at parse time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from include.compute.driver import Capacity, Delayed, Finished, JobCall, Waiting
from include.config.job_messages import JobRequest
from include.config.run_record import RunRecord
from plimsoll.hooks.capacity import capacity_of
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.job_inputs import Sources, build_inputs
from plimsoll.hooks.run_context import read_plan

__all__ = ["Delayed", "Finished", "Waiting", "submit_or_reattach", "upstream_inputs"]


def submit_or_reattach(
    *,
    installation: Installation,
    run: RunRecord,
    kind: str,
    item: str,
    group: str,
    inputs: Callable[[], dict[str, Any]],
    lost_lease: str | None,
) -> Finished | Waiting | Delayed:
    """Move one job of a run on.

    Args:
        installation: Clients of this process.
        run: Record of the run.
        kind: Kind of job.
        item: Distinguishes mapped jobs of one kind.
        group: Capacity group.
        inputs: Fields of the request that depend on earlier tasks; called only when a request is written.
        lost_lease: A lease that the watcher believes lost.

    Raises:
        JobInputError: The job refused its input.
        JobFailedError: The job failed, or its preemption budget is used up.
        GroupClosedError: The run's capacity was released.
        UserError: A budget or a quota is used up, or the provider refuses for good.
    """
    capacity = capacity_of(run, group, installation)
    call = JobCall(
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_prefix=run.run_prefix,
        kind=kind,
        item=item,
        request=lambda attempt, base: _request(run, kind, attempt, base, inputs(), capacity),
    )
    return installation.driver.advance(call, capacity, lost_lease=lost_lease)


def upstream_inputs(ti: Any, *, kind: str, item: str, run: RunRecord, installation: Installation) -> dict[str, Any]:
    """Fields of a request from the results of earlier tasks."""
    sources = Sources(
        run=run, pull=lambda task_id: ti.xcom_pull(task_ids=task_id), item=item, plan=read_plan(run, installation)
    )
    return build_inputs(kind, sources)


def _request(
    run: RunRecord, kind: str, attempt: int, base: str, fields: dict[str, Any], capacity: Capacity
) -> dict[str, Any]:
    usd_per_h = capacity.launch("", 0).usd_per_h
    request = {
        "kind": kind,
        "workload": run.workload,
        "run_id": run.run_id,
        "run_prefix": run.run_prefix,
        "base": base,
        "attempt": attempt,
        "code_version": run.code_version,
        **fields,
        "inputs": {"usd_per_h": usd_per_h, **fields.get("inputs", {})},
    }
    return JobRequest.model_validate(request).model_dump(mode="json")
