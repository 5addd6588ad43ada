"""Choose the plan: arithmetic over offers, no heavy import."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.core.clock import SystemClock
from include.core.errors import UserError
from plimsoll import task_ids
from plimsoll.hooks.installation import connect
from plimsoll.hooks.run_context import read_run, small_json


class PlanTrainingOperator(BaseOperator):
    """Ranks all offers for the demand within the workload's limits and writes ``plan.json``."""

    def execute(self, context: Any) -> dict[str, Any]:
        """Write the plan.

        Returns:
            The choice in brief; the whole plan with all alternatives is in the store.
        """
        # The catalog and the planner are needed when the task runs, not when its DAG file is parsed.
        from include.catalog.loader import load_catalog
        from include.core.contracts.demand import Demand
        from include.core.json_codec import from_json, to_json
        from include.sizing.planner import make_plan

        installation = connect()
        run = read_run(context, installation)
        demand = from_json(Demand, context["ti"].xcom_pull(task_ids=task_ids.PROFILE)["demand"])
        key = f"{run.run_prefix}/plan.json"
        offers = (*installation.engine.offers(demand), *load_catalog())
        try:
            plan = make_plan(
                demand=demand,
                offers=offers,
                workload=run.workload,
                settings=installation.settings,
                today=SystemClock().now().date(),
            )
        except UserError as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error
        installation.store.put_json(key, to_json(plan))
        self.log.info("run=%s chose %s: %s", run.run_id, plan.offer.name, plan.rule)
        brief = {
            "plan_uri": installation.store.uri(key),
            "offer": plan.offer.name,
            "rule": plan.rule,
            "objective": plan.objective.value,
            "prediction": to_json(plan.prediction),
            "checkpoint_every_steps": plan.checkpoint_every_steps,
            "naive": None if plan.naive is None else plan.naive.offer.name,
        }
        return dict(small_json(brief, what="plan"))
