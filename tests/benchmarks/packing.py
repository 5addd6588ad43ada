"""Devices used over a valid lower bound, and how long it takes: 200 random sets of ten models for A100s of 80 GB.

Fifty sets for each way of sharing (MIG, MPS, time-slicing, one process); all replicas can be placed. Ends with one
JSON line. Figures: ``mean_gpus_over_bound`` (mean of GPUs used minus the bound, by CP-SAT), ``ffd_gpus_over_bound``
(the same by first-fit decreasing alone, the best of its orders) and ``p95_ms`` (95th percentile of the wall time of
CP-SAT's answer, first-fit decreasing and bound included).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from include.sizing.packing import assign
from include.sizing.packing_bound import lower_bound
from include.sizing.packing_exact import is_available
from include.sizing.packing_items import ISOLATIONS
from tests.support.packing_rules import broken_rules, random_order

SETS, SEED, MODELS = 200, 20_261_130, 10


def one_set(number: int) -> dict:
    isolation = ISOLATIONS[number % len(ISOLATIONS)]
    order = random_order(SEED + number, isolation=isolation, models=MODELS)
    terms = order.terms(isolation)
    began, cpu = time.perf_counter(), time.process_time()
    exact = assign(order, isolation, exact=True)
    wall_ms, cpu_ms = 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu)
    simple = assign(order, isolation, exact=False)
    for found in (exact, simple):
        wrong = broken_rules(found, order, terms)
        if wrong or found.left_out:
            raise SystemExit(f"set {number} ({isolation}), {found.solver}: {wrong}, {len(found.left_out)} left out")
    bound = lower_bound(order.items(), order.all_devices(), terms)
    return {
        "isolation": isolation,
        "exact": exact.devices,
        "ffd": simple.devices,
        "bound": bound,
        "alone": len(order.items()),
        "proven": exact.proven,
        "wall_ms": wall_ms,
        "cpu_ms": cpu_ms,
    }


def main() -> None:
    if not is_available():
        raise SystemExit("OR-tools is not installed: `make setup-tests` brings it")
    assign(random_order(1, isolation="mig"), "mig", exact=True)  # imports OR-tools
    found = [one_set(number) for number in range(SETS)]
    walls = sorted(result["wall_ms"] for result in found)
    print(
        json.dumps(
            {
                "bench": "packing",
                "figures": {
                    "mean_gpus_over_bound": round(statistics.fmean(r["exact"] - r["bound"] for r in found), 4),
                    "ffd_gpus_over_bound": round(statistics.fmean(r["ffd"] - r["bound"] for r in found), 4),
                    "p95_ms": round(walls[int(0.95 * len(walls))], 1),
                },
                "context": {
                    "sets": SETS,
                    "seed": SEED,
                    "models_per_set": MODELS,
                    "mean_ratio_to_bound": round(statistics.fmean(r["exact"] / r["bound"] for r in found), 4),
                    "ffd_mean_ratio_to_bound": round(statistics.fmean(r["ffd"] / r["bound"] for r in found), 4),
                    "mean_gpus": round(statistics.fmean(r["exact"] for r in found), 3),
                    "mean_gpus_one_each": round(statistics.fmean(r["alone"] for r in found), 3),
                    "better_than_ffd": sum(r["exact"] < r["ffd"] for r in found),
                    "worse_than_ffd": sum(r["exact"] > r["ffd"] for r in found),
                    "proven_best": sum(r["proven"] for r in found),
                    "over_bound_by_isolation": dict(
                        Counter(r["isolation"] for r in found for _ in range(r["exact"] - r["bound"]))
                    ),
                    "p95_cpu_ms": round(sorted(r["cpu_ms"] for r in found)[int(0.95 * len(found))], 1),
                    "median_ms": round(statistics.median(walls), 1),
                    "max_ms": round(walls[-1], 1),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
