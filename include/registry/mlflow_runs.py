"""The MLflow run of an Airflow run: its figures, series and documents."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from include.core.ids import run_key
from include.registry.mlflow_connection import EXISTS, TAG, MlflowConnection, tags_of, tolerating
from include.registry.versions import Registration, RunKey, SeriesPoint

# MLflow refuses more metrics in one call.
_LARGEST_BATCH = 1000


class MlflowRuns:
    """One MLflow run per Airflow run, in the experiment of its workload.

    Args:
        connection: Where MLflow is.
    """

    def __init__(self, connection: MlflowConnection) -> None:
        self._connection = connection

    def log_metrics(self, run: RunKey, *, metrics: Mapping[str, float], tags: Mapping[str, str] | None = None) -> str:
        """Log figures and tags to the MLflow run of an Airflow run, which is made when there is none yet.

        Returns:
            Id of the MLflow run.
        """
        found = self.find(self.experiment(run.workload), run)
        self._log_batch(found, metrics=metrics, tags=tags or {})
        return found

    def log_series(self, run: RunKey, points: Sequence[SeriesPoint]) -> str:
        """Log series to the MLflow run of an Airflow run. Safe to repeat: equal points are the same point to MLflow.

        Returns:
            Id of the MLflow run.
        """
        from mlflow.entities import Metric

        found = self.find(self.experiment(run.workload), run)
        for start in range(0, len(points), _LARGEST_BATCH):
            part = points[start : start + _LARGEST_BATCH]
            self._connection.client.log_batch(found, metrics=[Metric(p.name, p.value, p.at_ms, p.step) for p in part])
        return found

    def _log_batch(self, run: str, *, metrics: Mapping[str, float], tags: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, RunTag

        at = int(time.time() * 1000)
        self._connection.client.log_batch(
            run,
            metrics=[Metric(name, value, at, 0) for name, value in metrics.items()],
            tags=[RunTag(name, value) for name, value in tags.items()],
        )

    def experiment(self, workload: str) -> str:
        """Id of the experiment of a workload, made or restored where needed."""
        found = self._connection.client.get_experiment_by_name(workload)
        if found is None:
            beside = None
            if self._connection.database is not None:
                beside = f"file://{self._connection.database.resolve().parent}/artifacts"
            with tolerating(EXISTS):
                self._connection.client.create_experiment(workload, artifact_location=beside)
            found = self._connection.client.get_experiment_by_name(workload)
        if found.lifecycle_stage != "active":
            self._connection.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def find(self, experiment: str, run: RunKey) -> str:
        """The MLflow run of an Airflow run; when two were made at once, all callers take the same one."""
        key = run_key(run.run_id)
        runs = self._search_runs(experiment, key)
        if not runs:
            self._connection.client.create_run(
                experiment,
                tags={f"{TAG}run_key": key, f"{TAG}run_id": run.run_id, f"{TAG}workload": run.workload},
                run_name=run.run_id,
            )
            runs = self._search_runs(experiment, key)
        return min(runs, key=lambda item: (item[0], item[1]))[1]

    def _search_runs(self, experiment: str, key: str) -> list[tuple[int, str]]:
        runs = self._connection.client.search_runs([experiment], f"tags.`{TAG}run_key` = '{key}'")
        return [(int(item.info.start_time), str(item.info.run_id)) for item in runs]

    def log_documents(self, run: str, order: Registration) -> None:
        """Log the metrics, the lineage and the documents of a registration."""
        self._log_batch(run, metrics=order.metrics, tags=tags_of(order.lineage))
        with tempfile.TemporaryDirectory() as folder:
            for name, content in order.documents.items():
                (Path(folder) / name).write_bytes(content)
            self._connection.client.log_artifacts(run, folder)
