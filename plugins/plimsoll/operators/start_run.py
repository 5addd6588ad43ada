"""The first task of a run: the order, fixed once for all later tasks."""

from __future__ import annotations

from typing import Any, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from pydantic import ValidationError

from include.config.loader import describe
from include.config.recipes import contract_recipes
from include.config.run_options import RunOptions, apply_options
from include.config.run_record import RunRecord
from include.config.workload import Workload
from include.core.clock import iso
from include.core.code_version import code_version
from include.core.ids import run_prefix
from plimsoll.hooks.installation import connect
from plimsoll.hooks.run_context import word_of


def _started_by(run_type: str) -> Literal["person", "schedule", "asset"]:
    if "asset" in run_type:
        return "asset"
    return "schedule" if "scheduled" in run_type else "person"


def _started_at(dag_run: Any) -> str | None:
    started = getattr(dag_run, "start_date", None)
    return None if started is None else iso(started)


class StartRunOperator(BaseOperator):
    """Lays the form's values over the workload file, checks the whole and writes ``run.json``.

    Args:
        workload: The workload as JSON, as the DAG was built from it.
    """

    def __init__(self, *, workload: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.workload = workload

    def execute(self, context: Any) -> list[str]:
        """Write the record; a retry or a clear writes the same one again.

        Returns:
            Names of the recipes, over which compression and evaluation are mapped.
        """
        ti = context["ti"]
        try:
            options = RunOptions.model_validate(dict(context["params"]))
            workload = apply_options(Workload.model_validate(self.workload), options)
        except ValidationError as error:
            raise AirflowFailException("trigger form: " + "; ".join(describe(error))) from error
        record = RunRecord(
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            run_prefix=run_prefix(workload=ti.dag_id, run_id=ti.run_id),
            started_by=_started_by(word_of(context["dag_run"].run_type)),
            code_version=code_version(),
            workload=workload,
            options=options,
            started_at=_started_at(context["dag_run"]),
        )
        store = connect().store
        store.put_json(f"{record.run_prefix}/run.json", record.model_dump(mode="json"))
        # A run that is cleared and begins anew has not been skipped yet.
        store.delete(f"{record.run_prefix}/skipped.json")
        self.log.info("run=%s workload=%s code=%s", ti.run_id, workload.name, record.code_version)
        return [recipe.name for recipe in contract_recipes(workload.compression)]
