"""Checks before money is spent: unchanged inputs, plan only, budget and quota."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.config.run_record import RunRecord
from include.core.ids import content_digest
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.run_budget import run_budget
from plimsoll.hooks.run_context import read_plan, read_run


def completion_key(run: RunRecord, fingerprint: str) -> str:
    """Store key that marks data + code + workload as done."""
    identity = content_digest([fingerprint, run.code_version, run.workload.model_dump(mode="json")])
    return f"completed/{run.dag_id}/{identity}.json"


def mark_skipped(run: RunRecord, installation: Installation) -> None:
    """Leave the proof that the run ends here on purpose: a run that a person marks failed skips its tasks as well."""
    installation.store.put_json(f"{run.run_prefix}/skipped.json", {"run_id": run.run_id})


class CheckInputsOperator(BaseOperator):
    """Skips a scheduled run when data, code and workload are those of a run that succeeded. A person's run goes on."""

    def execute(self, context: Any) -> str:
        """Return the key that `SealOperator` marks when the run succeeds."""
        installation = connect()
        run = read_run(context, installation)
        fingerprint = context["ti"].xcom_pull(task_ids=task_ids.PREPARE)["dataset"]["fingerprint"]
        key = completion_key(run, fingerprint)
        done = installation.store.get_json(key)
        if done is not None and run.started_by != "person":
            mark_skipped(run, installation)
            raise AirflowSkipException(f"run={run.run_id} data, code and workload are those of {done['run_id']}")
        return key


class ApproveSpendingOperator(BaseOperator):
    """The last task before capacity is rented."""

    def execute(self, context: Any) -> dict[str, Any]:
        """Refuse what the budget does not allow; stop here when only a plan was asked for."""
        installation = connect()
        run = read_run(context, installation)
        plan = read_plan(run, installation)
        if plan is None:
            raise AirflowFailException(f"run={run.run_id} has no plan; clear the task `{task_ids.PLAN}`")
        budget = run_budget(run, installation)
        expected = plan.prediction.usd
        if budget is not None and expected is not None and Decimal(str(expected)) > budget:
            raise AirflowFailException(
                f"run={run.run_id} limits.budget_usd: the plan costs {expected:.4f} USD, allowed {budget:.4f} USD; "
                "raise the budget, lower the epochs or choose objective=cost"
            )
        if run.options.plan_only:
            mark_skipped(run, installation)
            raise AirflowSkipException(f"run={run.run_id} plan only: {plan.offer.name}")
        return {"offer": plan.offer.name, "usd": expected, "budget_usd": None if budget is None else float(budget)}
