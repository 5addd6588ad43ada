"""Runs one DAG with ``dag.test()`` in a fresh process and prints states and results as one JSON line.

Usage: ``python -m tests.support.run_dag <dag-id> <conf-json>`` with a private Airflow home in the environment.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    from airflow.dag_processing.dagbag import DagBag

    dag_id, conf = sys.argv[1], json.loads(sys.argv[2])
    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    if bag.import_errors:
        raise SystemExit(f"import errors: {bag.import_errors}")
    run = bag.dags[dag_id].test(run_conf=conf)
    tasks = {
        f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id: str(ti.state)
        for ti in run.get_task_instances()
    }
    print("\n" + json.dumps({"run_id": run.run_id, "state": str(run.state), "tasks": tasks}))


if __name__ == "__main__":
    main()
