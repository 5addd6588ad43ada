"""``<run-prefix>/run.json``: what one run is about, written once by its first task and read by all others."""

from __future__ import annotations

from typing import Literal

from include.config.run_options import RunOptions
from include.config.schedule import Edge
from include.config.workload import Workload


class RunRecord(Edge):
    """The effective order of one run.

    Attributes:
        dag_id: DAG of the run.
        run_id: Airflow's run id, as it is.
        run_prefix: Store prefix of everything the run writes.
        started_by: ``person`` (form or API), ``schedule`` or ``asset``.
        code_version: Version of the engine's code.
        workload: The workload file with the form's values laid over it.
        options: The form's values.
        started_at: ISO time from which ``limits.deadline_h`` counts, None where Airflow has not told.
    """

    version: Literal[1] = 1
    dag_id: str
    run_id: str
    run_prefix: str
    started_by: Literal["person", "schedule", "asset"]
    code_version: str
    workload: Workload
    options: RunOptions
    started_at: str | None = None
