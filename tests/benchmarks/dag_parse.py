"""What parsing each DAG file costs beyond ``import airflow.sdk``: CPU seconds in fresh processes, interleaved rounds.

Ends with one JSON line. Figures: ``max_extra_cpu_s`` (the largest median of a file), ``heavy_modules`` (must be empty).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.airflow_home import REPO, migrate
from tests.support.parse_dags import HEAVY

ROUNDS = 5
_CHILD = """
import json, runpy, sys, time
import airflow.sdk
before, cpu = set(sys.modules), time.process_time()
error = ""
try:
    runpy.run_path(sys.argv[1])
except Exception as found:
    error = type(found).__name__
spent = time.process_time() - cpu
loaded = sorted({name.split(".")[0] for name in set(sys.modules) - before})
print(json.dumps({"cpu_s": spent, "loaded": loaded, "error": error}))
"""


def parse_once(path: Path, environment: dict[str, str]) -> dict:
    answer = subprocess.run(
        [sys.executable, "-c", _CHILD, str(path)], env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout.strip().splitlines()[-1])


def main() -> None:
    files = sorted((REPO / "dags").glob("*.py"))
    with tempfile.TemporaryDirectory() as home:
        environment = migrate(Path(home))
        for path in files:
            parse_once(path, environment)
        rounds = [{path.name: parse_once(path, environment) for path in files} for _ in range(ROUNDS)]
    medians = {path.name: statistics.median(r[path.name]["cpu_s"] for r in rounds) for path in files}
    heavy = sorted({m for r in rounds for found in r.values() for m in found["loaded"]} & set(HEAVY))
    spread = {
        name: [round(min(r[name]["cpu_s"] for r in rounds), 3), round(max(r[name]["cpu_s"] for r in rounds), 3)]
        for name in medians
    }
    errors = {name: found["error"] for r in rounds for name, found in r.items() if found["error"]}
    print(
        json.dumps(
            {
                "bench": "dag_parse",
                "figures": {"max_extra_cpu_s": round(max(medians.values()), 3), "heavy_modules": heavy},
                "context": {
                    "rounds": ROUNDS,
                    "median_cpu_s": {name: round(value, 3) for name, value in medians.items()},
                    "min_max_cpu_s": spread,
                    "errors": errors,
                },
            }
        )
    )


if __name__ == "__main__":
    main()
