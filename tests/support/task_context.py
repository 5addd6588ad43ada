"""A task's surroundings without a scheduler: context, task instance, and an installation with an engine in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.sdk.api.datamodels._generated import DagRunType

from include.compute.driver import JobDriver
from include.config.run_options import RunOptions
from include.config.run_record import RunRecord
from include.config.settings import Settings
from include.config.workload import Workload
from include.core.ids import run_prefix
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from plimsoll.hooks.installation import Installation
from tests.support.fake_engine import FakeEngine

DAG_ID = "digits"
RUN_ID = "manual__2026-01-01"


@dataclass
class FakeTaskInstance:
    """What operators read of a task instance."""

    task_id: str = "task"
    dag_id: str = DAG_ID
    run_id: str = RUN_ID
    try_number: int = 1
    max_tries: int = 2
    xcoms: dict[str, Any] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    run_states: dict[tuple[str, str], str] = field(default_factory=dict)
    pushed: dict[str, Any] = field(default_factory=dict)

    def xcom_pull(self, task_ids: str) -> Any:
        return self.xcoms.get(task_ids)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, str]]:
        return dict.fromkeys(run_ids, self.states)

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        return self.run_states[dag_id, run_id]


def context(ti: FakeTaskInstance, *, run_type: str = "manual", params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Context of a running task."""
    return {
        "ti": ti,
        "params": params or {},
        "dag_run": SimpleNamespace(run_type=DagRunType(run_type), run_id=ti.run_id),
    }


def installation(folder: Path, *, mlflow_uri: str = "http://127.0.0.1:9") -> Installation:
    """A whole installation below a folder; nothing listens on its MLflow URI."""
    settings = Settings(
        store=f"file://{folder / 'store'}",
        ledger=f"sqlite:///{folder / 'ledger.db'}",
        work_root=folder / "work",
        mlflow_uri=mlflow_uri,
    )
    migrate(settings.ledger)
    store, ledger, engine = ObjectStore(settings.store), Ledger(settings.ledger), FakeEngine()
    driver = JobDriver(store=store, ledger=ledger, engine=engine, preemption_budget=settings.preemption_budget)
    return Installation(settings=settings, store=store, ledger=ledger, engine=engine, driver=driver)


def reconfigured(place: Installation, **changes: Any) -> Installation:
    """The same installation with other settings."""
    return replace(place, settings=place.settings.model_copy(update=changes))


def write_run(
    place: Installation, workload: Workload, *, started_by: str = "person", options: RunOptions | None = None
) -> RunRecord:
    """The record that the first task writes."""
    record = RunRecord(
        dag_id=DAG_ID,
        run_id=RUN_ID,
        run_prefix=run_prefix(workload=DAG_ID, run_id=RUN_ID),
        started_by=started_by,
        code_version="code",
        workload=workload,
        options=options or RunOptions(),
    )
    place.store.put_json(f"{record.run_prefix}/run.json", record.model_dump(mode="json"))
    return record
