from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from include.training.telemetry.local_files import PROFILE_ORDER, TRACES
from include.training.telemetry.profiler import DEFAULT_STEPS, MOST_STEPS, StepProfiler


def run(profiler: StepProfiler, steps: int) -> None:
    weight = torch.ones(8, 8)
    for _ in range(steps):
        with torch.profiler.record_function("plimsoll_step"):
            weight @ weight
        profiler.after_step()


def traces(folder: Path) -> list[Path]:
    return sorted((folder / TRACES).glob("*.json.gz"))


def recorded_steps(path: Path) -> int:
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return sum(event.get("name") == "plimsoll_step" and event.get("ph") == "X" for event in events)


def test_ordered_steps_are_in_the_trace_and_their_operators_in_the_summary(tmp_path: Path) -> None:
    profiler = StepProfiler(folder=tmp_path, steps=2)
    run(profiler, 10)
    (path,) = traces(tmp_path)
    assert recorded_steps(path) == 2
    summary = json.loads(path.with_name(path.name.replace(".json.gz", ".summary.json")).read_text())
    mm = next(item for item in summary["operators"] if item["operator"] == "aten::mm")
    assert mm["calls"] == 2
    assert 0 < mm["self_cpu_us"] <= summary["self_cpu_us"]
    assert 0 < summary["outside_us"] < summary["step_us"]


def test_nothing_is_recorded_without_an_order(tmp_path: Path) -> None:
    profiler = StepProfiler(folder=tmp_path)
    profiler.look_for_order()
    run(profiler, 8)
    profiler.close()
    assert traces(tmp_path) == []


@pytest.mark.parametrize(
    ("order", "steps"),
    [('{"steps": 1}', 1), ("", DEFAULT_STEPS), ("{}", DEFAULT_STEPS), ("[]", DEFAULT_STEPS), ('{"steps": -4}', 3),
     ('{"steps": 999}', MOST_STEPS), ('{"steps": "x"}', DEFAULT_STEPS)],
)  # fmt: skip
def test_running_training_takes_an_order_from_a_file_once(order: str, steps: int, tmp_path: Path) -> None:
    profiler = StepProfiler(folder=tmp_path)
    run(profiler, 2)
    (tmp_path / PROFILE_ORDER).write_text(order)
    profiler.look_for_order()
    assert not (tmp_path / PROFILE_ORDER).exists()
    run(profiler, steps + 6)
    assert [recorded_steps(path) for path in traces(tmp_path)] == [steps]


def test_training_that_ends_in_the_middle_leaves_no_broken_trace(tmp_path: Path) -> None:
    profiler = StepProfiler(folder=tmp_path, steps=5)
    run(profiler, 2)
    profiler.close()
    profiler.close()
    assert traces(tmp_path) == []
