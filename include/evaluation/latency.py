"""Latency of a callable: wall percentiles for people, CPU time for comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable

from include.core.contracts.scorecard import Latency

# Rows per call: one request alone, and a full batch.
SINGLE = 1
BATCHED = 32
WARM_UP_CALLS = 20
CALLS_PER_ROUND = 10
LEAST_ROUNDS = 5
MOST_ROUNDS = 150
# Other processes add to the CPU time of a round (shared caches, shared cores) and never take away from it, so a low
# percentile over rounds repeats from run to run where the median follows the load of the machine.
CPU_PERCENTILE = 0.1


def percentile(values: list[float], share: float) -> float:
    """Nearest-rank percentile: the smallest value that at least `share` of the values do not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    rank = -int(-share * len(ordered) // 1)
    return ordered[max(rank, 1) - 1]


def _round(call: Callable[[], object]) -> tuple[list[float], float]:
    """Wall seconds of each call of one round and CPU seconds per call."""
    walls = []
    cpu_start = time.process_time()
    for _ in range(CALLS_PER_ROUND):
        start = time.perf_counter()
        call()
        walls.append(time.perf_counter() - start)
    return walls, (time.process_time() - cpu_start) / CALLS_PER_ROUND


def measure_latency(call: Callable[[], object], *, batch: int, budget_s: float = 1.0) -> Latency:
    """Time a call after warm-up.

    The CPU figure is taken over rounds of ten calls, as one call is too short for the clock, and is their 10th
    percentile.

    Args:
        call: Runs the model once on a batch.
        batch: Rows of that batch.
        budget_s: Wall seconds after which no further round starts, once there are enough.
    """
    for _ in range(WARM_UP_CALLS):
        call()
    walls: list[float] = []
    cpu: list[float] = []
    deadline = time.perf_counter() + budget_s
    while len(cpu) < LEAST_ROUNDS or (len(cpu) < MOST_ROUNDS and time.perf_counter() < deadline):
        round_walls, round_cpu = _round(call)
        walls += round_walls
        cpu.append(round_cpu)
    return Latency(
        batch=batch,
        p50_ms=percentile(walls, 0.5) * 1e3,
        p95_ms=percentile(walls, 0.95) * 1e3,
        cpu_ms=percentile(cpu, CPU_PERCENTILE) * 1e3,
        calls=len(walls),
    )
