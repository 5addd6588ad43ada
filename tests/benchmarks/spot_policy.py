"""Strategies for spot capacity on real traces of its availability: ``make bench BENCH=spot_policy TRACES=<folder>``.

The folder holds JSON files ``{"metadata": {"gap_seconds": 195}, "data": [1, 0, ...]}``, one per zone, anywhere below;
the files of one folder with the same accelerator (the part of the name after the zone) are one set of zones. A number
is how many instances could be had; one is enough here.

Cost is over the cost on demand, with a fixed ratio of prices, since the traces have none. Figures of one zone are means
over the zones that the strategy for several may use, from the same starts.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from include.compute.spot.deadline_aware import DeadlineAware
from include.compute.spot.optimum import cheapest_usd
from include.compute.spot.simulator import Outcome, simulate
from include.compute.spot.situation import Strategy, Terms
from include.compute.spot.strategies import AlwaysOnDemand, Greedy, TimeSliced, UniformProgress

HOUR_S = 3600.0
WORK_H = 48.0
DEADLINES_H = (52.0, 60.0, 70.0, 92.0)
CHANGEOVERS_MIN = (3.0, 12.0)
# p3.2xlarge when the traces were taken: 0.9731 USD on spot, 3.06 on demand, per hour.
SPOT_SHARE = 0.318
SEED = 7
STARTS = 12
# What a strategy may have seen of the zones before its job starts.
HISTORY_DAYS = 3
TABLE_3 = Terms(
    work_s=48 * HOUR_S, deadline_s=60 * HOUR_S, changeover_s=720.0, tick_s=600.0,
    on_demand_usd_per_h=1.0, spot_usd_per_h=(SPOT_SHARE,),
)  # fmt: skip
TABLE_3_SET, TABLE_3_STARTS, TABLE_3_DAYS = "aws-10-26-2022", 150, 13

OTHERS: dict[str, Callable[[], Strategy]] = {
    "on-demand": AlwaysOnDemand,
    "greedy": Greedy,
    "time-sliced": TimeSliced,
    "uniform-progress, spot wins": lambda: UniformProgress(spot_wins=True),
    "uniform-progress, hysteresis": lambda: UniformProgress(spot_wins=False),
}
UNIFORM = [name for name in OTHERS if name.startswith("uniform")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSet:
    """Traces of the zones of one region group and accelerator."""

    name: str
    tick_s: float
    zones: tuple[str, ...]
    availability: NDArray[np.bool_]


def read_sets(folder: Path) -> list[ZoneSet]:
    """All sets below a folder."""
    groups: dict[tuple[str, str], list[Path]] = {}
    for path in sorted(folder.rglob("*.json")):
        groups.setdefault((path.parent.name, path.stem.partition("_")[2]), []).append(path)
    sets = []
    for (parent, accelerator), paths in groups.items():
        traces = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        length = min(len(trace["data"]) for trace in traces)
        sets.append(
            ZoneSet(
                name=f"{parent}/{accelerator}",
                tick_s=float(traces[0]["metadata"]["gap_seconds"]),
                zones=tuple(path.stem for path in paths),
                availability=np.array([trace["data"][:length] for trace in traces]) > 0,
            )
        )
    return sets


def starts_of(zones: ZoneSet, deadline_s: float) -> list[int]:
    """The same starts for every strategy and zone."""
    first = int(HISTORY_DAYS * 24 * HOUR_S / zones.tick_s)
    last = zones.availability.shape[1] - int(deadline_s / zones.tick_s) - 60
    chosen = random.Random(SEED)
    return [chosen.randrange(first, last) for _ in range(STARTS)]


def run_cell(zones: ZoneSet, *, deadline_h: float, changeover_min: float) -> dict[str, Any]:
    """All strategies in one cell of the table."""
    terms = Terms(
        work_s=WORK_H * HOUR_S, deadline_s=deadline_h * HOUR_S, changeover_s=changeover_min * 60, tick_s=zones.tick_s,
        on_demand_usd_per_h=1.0, spot_usd_per_h=(SPOT_SHARE,),
    )  # fmt: skip
    several = Terms(**{**_fields(terms), "spot_usd_per_h": (SPOT_SHARE,) * len(zones.zones)})
    starts = starts_of(zones, terms.deadline_s)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in (*OTHERS, "ours", "ours, all zones")}
    optimum: dict[str, list[float]] = {"optimum": [], "optimum, all zones": []}
    for start in starts:
        for zone in range(len(zones.zones)):
            alone = zones.availability[zone : zone + 1]
            for name, make in (*OTHERS.items(), ("ours", DeadlineAware)):
                outcomes[name].append(simulate(make(), terms, alone, start=start))
            optimum["optimum"].append(cheapest_usd(terms, alone, start=start) / WORK_H)
        outcomes["ours, all zones"].append(simulate(DeadlineAware(), several, zones.availability, start=start))
        optimum["optimum, all zones"].append(cheapest_usd(several, zones.availability, start=start) / WORK_H)
    return {
        "set": zones.name,
        "work_h": WORK_H,
        "deadline_h": deadline_h,
        "changeover_min": changeover_min,
        "late": sum(outcome.late for runs in outcomes.values() for outcome in runs),
        "cost": {
            **{name: round(statistics.mean(o.usd / WORK_H for o in runs), 4) for name, runs in outcomes.items()},
            **{name: round(statistics.mean(costs), 4) for name, costs in optimum.items()},
        },
    }


def _fields(terms: Terms) -> dict[str, Any]:
    return {name: getattr(terms, name) for name in Terms.__dataclass_fields__}


def table_3(sets: list[ZoneSet]) -> dict[str, float] | None:
    """Greedy's hours of work on demand and on spot over all zones of the two-week traces, as in the paper's Table 3."""
    runs: list[Outcome] = []
    chosen = random.Random(1)
    for zones in sets:
        if not zones.name.startswith(TABLE_3_SET):
            continue
        ticks = min(zones.availability.shape[1], int(TABLE_3_DAYS * 24 * HOUR_S / zones.tick_s))
        last = ticks - int(TABLE_3.deadline_s / zones.tick_s) - 20
        for zone in range(len(zones.zones)):
            alone = zones.availability[zone : zone + 1]
            starts = [chosen.randrange(last) for _ in range(TABLE_3_STARTS)]
            runs += [simulate(Greedy(), TABLE_3, alone, start=start) for start in starts]
    if not runs:
        return None
    return {
        "jobs": len(runs),
        "on_demand_h": round(statistics.mean(TABLE_3.work_s - run.spot_work_s for run in runs) / HOUR_S, 1),
        "spot_h": round(statistics.mean(run.spot_work_s for run in runs) / HOUR_S, 1),
        "paper_on_demand_h": 30.8,
        "paper_spot_h": 17.2,
    }


def figures_of(cells: list[dict[str, Any]]) -> dict[str, float]:
    """The figures over some cells."""
    best_others = [min(cell["cost"][name] for name in OTHERS) for cell in cells]
    uniform = [min(cell["cost"][name] for name in UNIFORM) for cell in cells]
    return {
        "late_jobs": sum(cell["late"] for cell in cells),
        "worst_ratio_to_best_other": round(
            max(cell["cost"]["ours"] / best for cell, best in zip(cells, best_others, strict=True)), 4
        ),
        "multizone_vs_up_single": round(
            max(cell["cost"]["ours, all zones"] / best for cell, best in zip(cells, uniform, strict=True)), 4
        ),
        "mean_gap_to_optimum": round(
            statistics.mean(cell["cost"]["ours"] / cell["cost"]["optimum"] - 1 for cell in cells), 4
        ),
    }


def main() -> int:
    """Print the table and end with one JSON line."""
    folder = Path(os.environ.get("TRACES") or "")
    sets = read_sets(folder) if os.environ.get("TRACES") and folder.is_dir() else []
    if not sets:
        print("TRACES must name a folder with traces of spot availability, one JSON file per zone.", file=sys.stderr)
        return 64
    cells = []
    for zones in sets:
        for deadline_h in DEADLINES_H:
            for changeover_min in CHANGEOVERS_MIN:
                cells.append(run_cell(zones, deadline_h=deadline_h, changeover_min=changeover_min))
                print(json.dumps(cells[-1]), file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "bench": "spot_policy",
                "figures": figures_of(cells),
                "context": {
                    "starts": STARTS,
                    "seed": SEED,
                    "spot_share_of_price": SPOT_SHARE,
                    "history_days_before_the_first_start": HISTORY_DAYS,
                    "by_set": {z.name: figures_of([c for c in cells if c["set"] == z.name]) for z in sets},
                    "table_3_greedy": table_3(sets),
                    "cells": cells,
                },
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
