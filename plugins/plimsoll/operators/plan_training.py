"""Choose the plan: arithmetic over offers, no heavy import."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.config.run_record import RunRecord
from include.core.clock import SystemClock
from include.core.errors import UserError
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.run_context import read_run, small_json


class PlanTrainingOperator(BaseOperator):
    """Ranks all offers for the demand within the workload's limits and writes ``plan.json``."""

    def execute(self, context: Any) -> dict[str, Any]:
        """Write the plan.

        Returns:
            The choice in brief; the whole plan with all alternatives is in the store.
        """
        # The catalog and the planner are needed when the task runs, not when its DAG file is parsed.
        from include.catalog.offers import load_offers
        from include.core.json_codec import to_json
        from include.ledger.corrections import read_corrections
        from include.ledger.experience import read_experience
        from include.sizing.plan_text import describe
        from include.sizing.planner import make_plan
        from plimsoll.hooks.aws_clients import Boto3Clients
        from plimsoll.hooks.plan_order import ensure_spot_prices, planned_order

        installation, now = connect(), SystemClock().now()
        run = read_run(context, installation)
        try:
            workload = planned_order(run, installation)
        except UserError as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error
        if missing := ensure_spot_prices(installation, now=now, clients=Boto3Clients):
            self.log.warning("run=%s %s", run.run_id, missing)
        profile = context["ti"].xcom_pull(task_ids=task_ids.PROFILE)
        demand = read_demand(profile, installation)
        record_profile(profile, demand, run, installation)
        key = f"{run.run_prefix}/plan.json"
        catalog = load_offers(installation.settings, today=now.date(), experience=read_experience(installation.ledger))
        for note in catalog.notes:
            self.log.warning("run=%s %s", run.run_id, note)
        try:
            plan = make_plan(
                demand=demand,
                offers=(*installation.engine.offers(demand), *catalog.offers),
                workload=workload,
                settings=installation.settings,
                today=now.date(),
                now=now,
                corrections=read_corrections(installation.ledger),
            )
        except UserError as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error
        installation.store.put_json(key, to_json(plan))
        self.log.info("run=%s chose %s: %s\n%s", run.run_id, plan.offer.name, plan.rule, "\n".join(describe(plan)))
        brief = {
            "plan_uri": installation.store.uri(key),
            "offer": plan.offer.name,
            "instances": plan.instances,
            "rule": plan.rule,
            "objective": plan.objective.value,
            "prediction": to_json(plan.prediction),
            "checkpoint_every_steps": plan.checkpoint_every_steps,
            "naive": None if plan.naive is None else plan.naive.offer.name,
            "best_anywhere": None if plan.anywhere is None else plan.anywhere.offer.name,
        }
        return dict(small_json(brief, what="plan"))


def record_profile(profile: dict[str, Any], demand: Any, run: RunRecord, installation: Installation) -> bool:
    """Write what real steps on a GPU of the profile's machine teach, once for each run; the plan rests on it already.

    Returns:
        Whether there was anything to learn.
    """
    from include.core.contracts.device_profile import DeviceProfile
    from include.core.json_codec import from_json
    from include.ledger.corrections import KIND
    from include.sizing.profile_lesson import profile_event

    raw = profile.get("device")
    event = None if raw is None else profile_event(demand, from_json(DeviceProfile, raw))
    if event is None:
        return False
    key = f"{KIND}:{run.dag_id}/{run.run_id}:profile"
    return bool(installation.ledger.record(KIND, dag_id=run.dag_id, run_id=run.run_id, key=key, body=event))


def read_demand(profile: dict[str, Any], installation: Installation) -> Any:
    """The whole demand from the store; the one in XCom has no table."""
    from include.core.contracts.demand import Demand
    from include.core.json_codec import from_json

    uri = profile.get("demand_uri")
    raw = None if uri is None else installation.store.get_json(installation.store.key_of(uri))
    return from_json(Demand, profile["demand"] if raw is None else raw)
