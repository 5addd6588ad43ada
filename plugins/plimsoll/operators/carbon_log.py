"""The account of a run: cost, energy and carbon from the ledger, to the store, to MLflow, and against the limit."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from include.config.run_record import RunRecord
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.run_context import read_plan
from plimsoll.operators.run_job import RunJobOperator


class CarbonLogOperator(RunJobOperator):
    """Writes ``report.json``, logs the totals to the run's MLflow run and fails a run above ``limits.max_gco2e``.

    Every figure carries its method. A figure with an unknown part is null and its known part stands beside it; an
    unknown carbon total with a limit set fails the run too, since nobody can say that the limit holds. What the
    training was predicted to take and what it took go into the ledger, from which the next plan learns; the report
    recommends what to rent for the next run.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(kind="account", **kwargs)

    def inputs(self, context: Any, run: RunRecord, installation: Installation) -> dict[str, Any]:
        """The totals as they stand when the job is submitted, beside what the plan had predicted."""
        report = self._report(run, installation)
        registered = context["ti"].xcom_pull(task_ids=task_ids.REGISTER)
        figures = {name: report[name] for name in ("totals", "predicted", "recommendation")}
        return {"inputs": {**figures, "registered": registered}}

    def finish(self, context: Any, run: RunRecord, installation: Installation, result: dict[str, Any]) -> Any:  # noqa: ARG002 - overrides
        """Record predicted against actual, write the report with this job's own charge in it, check the limit."""
        from plimsoll.hooks.training_outcome import record_outcome

        record_outcome(run, installation)
        report = {**self._report(run, installation), "mlflow_run_id": result.get("mlflow_run_id")}
        installation.store.put_json(f"{run.run_prefix}/report.json", report)
        self._check_limit(run, report["totals"])
        totals = report["totals"]
        return {name: totals[name] for name in ("usd", "kwh", "gco2e", "useful_s", "lost_s", "idle_s", "utilisation")}

    @staticmethod
    def _report(run: RunRecord, installation: Installation) -> dict[str, Any]:
        from include.core.json_codec import to_json
        from include.sizing.comparison import compare
        from plimsoll.hooks.training_outcome import next_run, training_outcome

        ledger = installation.ledger
        plan = read_plan(run, installation)
        actual = training_outcome(run, installation)
        return {
            "totals": to_json(ledger.totals(dag_id=run.dag_id, run_id=run.run_id)),
            "charges": [to_json(charge) for charge in ledger.charges(dag_id=run.dag_id, run_id=run.run_id)],
            "predicted": None if plan is None else to_json(plan.prediction),
            "training": None if actual is None else to_json(actual),
            "compared": to_json(compare(plan, actual)) if plan and actual else [],
            "recommendation": to_json(next_run(run, installation, plan, actual)) if plan and actual else None,
            "naive": None if plan is None or plan.naive is None else to_json(plan.naive),
        }

    @staticmethod
    def _check_limit(run: RunRecord, totals: dict[str, Any]) -> None:
        limit, found = run.workload.limits.max_gco2e, totals["gco2e"]
        if limit is None:
            return
        if found is None:
            raise AirflowFailException(
                f"run={run.run_id} limits.max_gco2e is {limit} but the carbon of the run is unknown: "
                f"{totals['unknown']}; set PLIMSOLL_REGION or remove the limit"
            )
        if found > limit:
            raise AirflowFailException(f"run={run.run_id} limits.max_gco2e: found {found:.3f} g, allowed {limit} g")
