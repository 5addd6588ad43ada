"""Parses the DAG folder in a fresh process and prints what was found as one JSON line."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import airflow.sdk  # noqa: F401 - what every Airflow component has loaded before it parses

HEAVY = ("torch", "mlflow", "great_expectations", "pandas", "onnxruntime", "kubernetes", "boto3", "numpy", "sklearn")


def main() -> None:
    from airflow.dag_processing.dagbag import DagBag

    before = set(sys.modules)
    cpu = time.process_time()
    bag = DagBag(sys.argv[1])
    spent = time.process_time() - cpu
    loaded = {name.split(".")[0] for name in set(sys.modules) - before}
    dags = {dag_id: describe(dag) for dag_id, dag in bag.dags.items()}
    print(
        json.dumps(
            {
                "import_errors": {Path(k).name: v for k, v in bag.import_errors.items()},
                "heavy": sorted(loaded & set(HEAVY)),
                "cpu_s": spent,
                "dags": dags,
            }
        )
    )


def describe(dag) -> dict:
    return {
        "tags": sorted(dag.tags),
        "doc": bool(dag.doc_md),
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "dagrun_timeout": str(dag.dagrun_timeout) if dag.dagrun_timeout else None,
        "params": {key: dag.params.get_param(key).schema for key in dag.params},
        "tasks": {
            task.task_id: {
                "type": task.task_type,
                "owner": task.owner,
                "retries": task.retries,
                "pool": task.pool,
                "is_setup": task.is_setup,
                "is_teardown": task.is_teardown,
                "fails_run": bool(getattr(task, "on_failure_fail_dagrun", False)),
                "upstream": sorted(task.upstream_task_ids),
                "policy": task.retry_policy is not None,
            }
            for task in dag.tasks
        },
    }


if __name__ == "__main__":
    main()
