"""Buttons on a task's page: the run's cost and carbon, and the Data Docs of its validation."""

from __future__ import annotations

from urllib.parse import urlencode

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.types import TaskInstanceKey


def _query(ti_key: TaskInstanceKey) -> str:
    return urlencode({"dag_id": ti_key.dag_id, "run_id": ti_key.run_id})


class CostAndCarbonLink(BaseOperatorLink):
    """To the run's page of the dashboard."""

    name = "Cost & carbon"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's signature
        """Path of the page."""
        return f"/plimsoll/?{_query(ti_key)}"


class DataDocsLink(BaseOperatorLink):
    """To the report of the validation, passed or failed."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Path of the report; empty on tasks that validate nothing."""
        return f"/plimsoll/data-docs?{_query(ti_key)}" if getattr(operator, "kind", "") == "validate" else ""
