"""Buttons on a task's page."""

from __future__ import annotations

import pytest
from airflow.sdk.types import TaskInstanceKey

from plimsoll.links.run_links import DataDocsLink
from plimsoll.operators.run_job import RunJobOperator

KEY = TaskInstanceKey(
    dag_id="digits", task_id="t", run_id="manual__2026-01-01T00:00:00+00:00", try_number=1, map_index=-1
)


@pytest.mark.parametrize(("kind", "path"), [("validate", "/plimsoll/data-docs?"), ("prepare", "")])
def test_data_docs_are_linked_from_the_validation(kind: str, path: str) -> None:
    link = DataDocsLink().get_link(RunJobOperator(task_id="t", kind=kind), ti_key=KEY)
    assert link.startswith(path)
    assert bool(link) is bool(path)


def test_every_job_links_to_the_runs_page_with_its_id_escaped() -> None:
    operator = RunJobOperator(task_id="t", kind="prepare")
    links = {link.name: link.get_link(operator, ti_key=KEY) for link in operator.operator_extra_links}
    assert links["Cost & carbon"] == "/plimsoll/?dag_id=digits&run_id=manual__2026-01-01T00%3A00%3A00%2B00%3A00"
