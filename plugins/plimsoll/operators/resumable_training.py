"""The training task: a job that survives interruptions and resumes exactly."""

from __future__ import annotations

from typing import Any

from include.config.run_record import RunRecord
from plimsoll.hooks.installation import Installation
from plimsoll.operators.run_job import RunJobOperator


class ResumableTrainingOperator(RunJobOperator):
    """Trains on the run's ``train`` lease and resumes from the newest committed checkpoint.

    A notice, a lost lease or a killed process leads to a new attempt, on the same lease if its agent lives and on a new
    one otherwise, within the preemption budget. Code errors use Airflow's retries.

    Args:
        group: Capacity group, ``train`` unless a DAG has several trainings.
    """

    def __init__(self, *, group: str = "train", **kwargs: Any) -> None:
        super().__init__(kind="train", group=group, **kwargs)

    def finish(self, context: Any, run: RunRecord, installation: Installation, result: dict[str, Any]) -> Any:
        """Add how often the training was interrupted."""
        interruptions = installation.ledger.preemptions(dag_id=run.dag_id, run_id=run.run_id, job="train")
        result = {**result, "interruptions": interruptions}
        return super().finish(context, run, installation, result)
