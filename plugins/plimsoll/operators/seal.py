"""The last task of a DAG that holds leases: says in the run's state what really happened."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.core.ids import run_prefix
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.run_context import read_run, word_of

_BAD = ("failed", "upstream_failed")


class SealOperator(BaseOperator):
    """Fails a run that has failed tasks; marks data, code and workload of a sound run as done.

    Either way the run is over, which the storage clean-up wants to know.

    A run that a person marks failed skips its remaining tasks, and skipped leaves would turn it green. Used as a
    teardown with ``on_failure_fail_dagrun=True``.

    Args:
        done_task: Task whose success means that the run did its work; None when nothing is to be marked.
    """

    def __init__(self, *, done_task: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.done_task = done_task

    def execute(self, context: Any) -> dict[str, str]:
        """Look at all task states."""
        ti = context["ti"]
        states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[ti.run_id]).get(ti.run_id, {})
        installation, prefix = connect(), run_prefix(workload=ti.dag_id, run_id=ti.run_id)
        store = installation.store
        store.put_json(f"{prefix}/sealed.json", {"run_id": ti.run_id})
        if store.exists(f"{prefix}/plan.json"):
            self._learn(context, installation)
        bad = {task: word_of(state) for task, state in states.items() if word_of(state) in _BAD}
        if bad:
            raise AirflowFailException(f"run={ti.run_id} is not sound: {bad}")
        done = self.done_task is None or word_of(states.get(self.done_task)) == "success"
        if not done and not store.exists(f"{prefix}/skipped.json"):
            # Marked failed between two tasks: nothing failed, everything else was skipped, and nothing chose to skip.
            raise AirflowFailException(
                f"run={ti.run_id} ended before {self.done_task}, and no task chose to end it there"
            )
        if self.done_task and done:
            key = ti.xcom_pull(task_ids=task_ids.CHECK_INPUTS)
            if key:
                store.put_json(key, {"run_id": ti.run_id})
        return {"sealed": ti.run_id}

    def _learn(self, context: Any, installation: Installation) -> None:
        """A run that failed before its report teaches too: what did not fit, what took too long."""
        from plimsoll.hooks.training_outcome import record_outcome

        try:
            record_outcome(read_run(context, installation), installation)
        except Exception:  # what the run was decides its state, not what could be learned from it
            self.log.warning("nothing was learned from this run", exc_info=True)
