"""Requests from earlier results, with as many recipes as the workload has: one, several, and one that failed."""

from __future__ import annotations

from typing import Any

import pytest

from include.config.run_options import RunOptions
from include.config.workload import Workload
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.job_inputs import Sources, build_inputs
from tests.support.task_context import write_run


def compressed(recipe: str) -> dict[str, Any]:
    return {"candidate": {"recipe": recipe, "artefact_uri": f"file:///{recipe}"}}


def scored(recipe: str) -> dict[str, Any]:
    return {"scorecard": {"recipe": recipe}}


def sources(place: Installation, digits: Workload, *, item: str, compress: Any, evaluate: Any) -> Sources:
    results = {
        task_ids.PREPARE: {"dataset": {"uri": "datasets/d"}},
        task_ids.COMPRESS: compress,
        task_ids.EVALUATE: evaluate,
    }
    return Sources(run=write_run(place, digits), pull=results.__getitem__, item=item, plan=None)


# Airflow gives the result of a mapped task as a list, but as the bare result when it was mapped over one item.
SHAPES = {
    "one": (compressed("onnx-fp32"), scored("onnx-fp32"), ["onnx-fp32"]),
    "two": (
        [compressed("static-int8"), compressed("onnx-fp32")],
        [scored("static-int8"), scored("onnx-fp32")],
        ["static-int8", "onnx-fp32"],
    ),
    "one of two failed": ([compressed("onnx-fp32"), None], [scored("onnx-fp32"), None], ["onnx-fp32"]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_evaluate_and_select_take_any_number_of_candidates(place, digits, shape):
    compress, evaluate, recipes = SHAPES[shape]
    found = sources(place, digits, item="onnx-fp32", compress=compress, evaluate=evaluate)
    assert build_inputs("evaluate", found)["candidate"] == compressed("onnx-fp32")["candidate"]
    assert [card["recipe"] for card in build_inputs("select", found)["scorecards"]] == recipes


def test_training_is_told_its_layouts_and_how_many_steps_to_profile(place, digits, planned):
    run = write_run(place, digits)
    run = run.model_copy(update={"options": RunOptions(profile_steps=4)})
    pull = {task_ids.PREPARE: {"dataset": {"uri": "datasets/d"}}}.__getitem__
    asked = build_inputs("train", Sources(run=run, pull=pull, item="", plan=planned))
    assert asked["inputs"] == {"profile_steps": 4}
    assert asked["dataset"] == {"uri": "datasets/d"}
    assert asked["checkpoint_every_steps"] >= 1
