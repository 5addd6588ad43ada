"""Workload files for tests on the real stack: a small table of numbers, a tiny model, one recipe, nothing deployed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import yaml

from stack.installation import REPO

FEATURES = 6
ROWS = 600
DIGITS_ASSET, DRILL_ASSET = "raw/digits", "raw/drill"
# Enough steps for a training of about ten seconds, so that there is time to break something in its middle.
_LONG = {"epochs": 90, "batch_size": 16, "lr": 0.001, "seed": 7, "checkpoint_every_steps": 200}
_SHORT = {"epochs": 3, "batch_size": 32, "seed": 7}


def write_workloads(*, workloads: Path, data: Path) -> None:
    """Write all workload files and the table that the small ones use.

    The two that ship with the project are among them; digits listens to an asset here, which changes nothing else.

    Args:
        workloads: Folder of the workload files.
        data: Folder that the table may lie in.
    """
    workloads.mkdir(parents=True)
    data.mkdir(parents=True)
    shipped = REPO / "include" / "workloads"
    shutil.copy(shipped / "titanic.yaml", workloads)
    digits = yaml.safe_load((shipped / "digits.yaml").read_text())
    digits["schedule"] = {"kind": "asset", "asset": DIGITS_ASSET}
    (workloads / "digits.yaml").write_text(yaml.safe_dump(digits))
    write_table(data / "drill.csv")
    for name, changes in {
        "drill": {"training": _LONG},
        "drill-too": {"training": {**_LONG, "seed": 11}},
        "form": {},
        "ticking": {"schedule": {"kind": "cron", "cron": "* * * * *"}},
        "listening": {"schedule": {"kind": "asset", "asset": DRILL_ASSET}},
    }.items():
        (workloads / f"{name}.yaml").write_text(
            yaml.safe_dump(small_workload(name, table=data / "drill.csv", **changes))
        )


def write_table(path: Path) -> None:
    """Two classes that a line separates, with a little noise; the same rows at each call."""
    numbers = random.Random(7)
    lines = [",".join([*(f"x{i}" for i in range(FEATURES)), "kind"])]
    for _ in range(ROWS):
        row = [numbers.gauss(0, 1) for _ in range(FEATURES)]
        side = sum(value * (1 + i) for i, value in enumerate(row)) + numbers.gauss(0, 0.5)
        lines.append(",".join([*(f"{value:.5f}" for value in row), "high" if side > 0 else "low"]))
    path.write_text("\n".join(lines) + "\n")


def small_workload(name: str, *, table: Path, **changes: Any) -> dict[str, Any]:
    """One workload as it stands in its file."""
    return {
        "name": name,
        "description": "A small table for tests.",
        "data": {"source": {"kind": "uri", "uri": str(table)}, "label": "kind"},
        "model": {"factory": "mlp", "arguments": {"hidden": [16]}},
        "training": _SHORT,
        "limits": {"deadline_h": 1, "budget_usd": 1.0},
        "compression": {"recipes": ["onnx-fp32"]},
        "gates": {"min_accuracy": 0.5},
        "serving": {"deploy": False},
        **changes,
    }
