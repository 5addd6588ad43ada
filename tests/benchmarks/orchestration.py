"""What Airflow costs: wall time of the lifecycle on the real stack over the same jobs replayed without it.

A first run warms everything that outlives a run (prepared data, compression prefixes, the registered version, the
control agent), for both sides alike. Then rounds, each one run of the DAG, from the start of its first task to the end
of its last, and one replay of that run's own requests with the driver and the local engine: same leases, same slots.

Ends with one JSON line. Figure: ``wall_over_job_time``, the median of the rounds. ``WORKLOAD`` and ``ROUNDS`` are taken
from the environment (digits, 2).
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.live_run import LiveRun
from tests.support.real_stack import RealStack, real_stack, variables
from tests.support.replay import Replay

ROUNDS = int(os.environ.get("ROUNDS", "2"))
WORKLOAD = os.environ.get("WORKLOAD") or "digits"
_RUN_S = 400.0


def airflow_run(stack: RealStack) -> tuple[LiveRun, float]:
    """One run of the DAG and its wall seconds."""
    run = LiveRun.begin(stack, WORKLOAD)
    state = run.wait_end(within_s=_RUN_S)
    if state != "success":
        raise SystemExit(f"the run ended as {state}: {run.task_states()}")
    tasks = stack.api().tasks(WORKLOAD, run.run_id)
    began = min(datetime.fromisoformat(task["start_date"]) for task in tasks if task["start_date"])
    ended = max(datetime.fromisoformat(task["end_date"]) for task in tasks if task["end_date"])
    return run, (ended - began).total_seconds()


def job_seconds(run: LiveRun) -> float:
    """Wall seconds that the agents counted for the run's jobs, one after the other."""
    store = run.stack.store()
    beats = [store.get_json(key) for key, _ in store.list(f"{run.prefix}/jobs") if key.endswith("/heartbeat.json")]
    return sum(float(beat["usage"]["wall_s"]) for beat in beats if beat)


def one_round(stack: RealStack, number: int) -> dict[str, float]:
    """One run and its replay."""
    run, wall_s = airflow_run(stack)
    settings = stack.engine_settings
    with variables({**stack.environment, **settings.to_environment()}):
        replay = Replay(settings=settings, dag_id=WORKLOAD, run_id=run.run_id, name=f"round-{number}")
        replayed_s = replay.seconds()
    return {"airflow_s": wall_s, "replay_s": replayed_s, "jobs_s": job_seconds(run)}


def main() -> None:
    logging.disable(logging.INFO)  # the driver tells each look at a job
    with (
        tempfile.TemporaryDirectory(prefix="orchestration-") as folder,
        real_stack(Path(folder) / "stack", drill_dags=False) as stack,
    ):
        airflow_run(stack)
        rounds = [one_round(stack, number) for number in range(ROUNDS)]
    ratios = [found["airflow_s"] / found["replay_s"] for found in rounds]
    print(
        json.dumps(
            {
                "bench": "orchestration",
                "figures": {"wall_over_job_time": round(statistics.median(ratios), 3)},
                "context": {
                    "workload": WORKLOAD,
                    "rounds": [{name: round(value, 2) for name, value in found.items()} for found in rounds],
                    "min_max": [round(min(ratios), 3), round(max(ratios), 3)],
                    "equalised": "one run before the rounds warms data, prefix cache, registry and control agent",
                    "cores": os.cpu_count(),
                    "load_1m": round(os.getloadavg()[0], 2),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
