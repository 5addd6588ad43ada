"""Every task trains through the same session and learns something."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from include.config.loader import load_workload
from include.config.workload import TrainingSection
from include.core.errors import UserError, WorkloadError
from include.core.store import ObjectStore
from include.training.outcome import WorkerOutcome
from tests.support.training import tiny_workload, train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]
TRANSFORMER = "include.training.models.transformer:build"
SMALL = {"width": 16, "depth": 1, "heads": 2, "dropout": 0.0}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "text.txt").write_text("she sells sea shells by the sea shore. " * 40)
    lines = [{"text": f"{word} {n}", "label": kind} for n in range(40) for word, kind in (("good", "+"), ("bad", "-"))]
    (folder / "lines.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    random = np.random.default_rng(1)
    points = random.normal(size=(120, 3))
    rows = ["a,b,c,y"] + [",".join(f"{v:.5f}" for v in (*p, p[0] - 2 * p[1] + 3)) for p in points]
    (folder / "table.csv").write_text("\n".join(rows))
    return folder


def result_of(attempt: Attempt, store: ObjectStore, *, model: dict[str, Any], **training: Any) -> Any:
    request = train_request(write_dataset(store), order=tiny_workload(model=model, **training))
    outcome = attempt(request, store)
    assert outcome.result is not None
    return outcome.result


def test_regression_learns_a_line(data: Path, file_store: ObjectStore, attempt: Attempt) -> None:
    result = result_of(
        attempt, file_store, model={"factory": "mlp", "arguments": {"hidden": [], "dropout": 0}}, task="regression",
        data="include.training.tasks.numbers:table", data_arguments={"uri": str(data / "table.csv"), "target": "y"},
        epochs=60, lr=0.1,
    )  # fmt: skip
    assert result.metrics["validation_mean_absolute_error"] < 0.3


def test_language_model_is_less_surprised_than_by_chance(data: Path, file_store: ObjectStore, attempt: Attempt) -> None:
    result = result_of(
        attempt, file_store, model={"factory": TRANSFORMER, "arguments": SMALL}, task="causal-lm",
        data="include.training.tasks.text:windows", data_arguments={"uri": str(data / "text.txt"), "length": 16},
        epochs=15, lr=0.02, warmup_steps=3, clip_grad_norm=1.0,
    )  # fmt: skip
    # The text has 14 letters; a uniform guess among all bytes has a perplexity of 256.
    assert result.metrics["validation_perplexity"] < 10


def test_texts_are_classified(data: Path, file_store: ObjectStore, attempt: Attempt) -> None:
    result = result_of(
        attempt, file_store, model={"factory": TRANSFORMER, "arguments": {**SMALL, "vocabulary": 256}},
        task="text-classification", data="include.training.tasks.text:labelled",
        data_arguments={"uri": str(data / "lines.jsonl"), "length": 8}, epochs=10, lr=0.02,
    )  # fmt: skip
    assert result.metrics["validation_accuracy"] > 0.9


def test_loss_and_metric_of_ones_own_are_used(data: Path, file_store: ObjectStore, attempt: Attempt) -> None:
    result = result_of(
        attempt, file_store, model={"factory": "mlp", "arguments": {"hidden": []}}, task="regression",
        metric="include.training.tasks.task:absolute_error", loss="include.training.tasks.task:squared_error_sum",
        data="include.training.tasks.numbers:table", data_arguments={"uri": str(data / "table.csv"), "target": "y"},
        epochs=1,
    )  # fmt: skip
    assert "validation_absolute_error" in result.metrics


@pytest.mark.parametrize("wrong", ["os:system", "include.training.tasks:", "include.core.ids:digest"])
@pytest.mark.parametrize("key", ["loss", "metric", "data"])
def test_import_paths_outside_the_package_are_refused(key: str, wrong: str) -> None:
    with pytest.raises(ValueError, match="import path is not allowed"):
        TrainingSection(**{key: wrong})


def test_a_function_that_is_not_there_is_named(file_store: ObjectStore, attempt: Attempt) -> None:
    order = tiny_workload(loss="include.training.tasks.task:absent")
    with pytest.raises(UserError, match=r"no such function.*training\.loss"):
        attempt(train_request(write_dataset(file_store), order=order), file_store)


@pytest.mark.parametrize(
    "training", ["{task: regression}", "{task: causal-lm}", "{metric: 'include.training.tasks.task:hits'}"]
)
def test_what_the_chain_cannot_finish_is_refused_in_the_workload_file(training: str, tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        f"name: w\nmodel: {{factory: mlp}}\ndata: {{source: {{kind: digits}}, label: digit}}\ntraining: {training}\n"
    )
    with pytest.raises(WorkloadError, match="classification"):
        load_workload(path)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("numbers:table", {"uri": "", "target": "y"}, "no URI of a file.*data_arguments.uri"),
        ("numbers:table", {"uri": 5, "target": "y"}, "no URI of a file"),
        ("numbers:table", {"uri": "a\0b", "target": "y"}, "no URI of a file"),
        ("numbers:table", {"uri": "http://127.0.0.1:9/x.csv", "target": "y"}, "no object store of this kind.*s3://"),
        ("numbers:table", {"uri": "table.csv", "target": "y", "validation": "a"}, "no share of the rows.*'a'"),
        ("numbers:table", {"uri": "table.csv", "target": "y", "validation": 1}, "no share of the rows"),
        ("numbers:table", {"uri": "target.csv", "target": "y"}, "no column is left to learn from"),
        ("numbers:table", {"uri": "huge.csv", "target": "y"}, "too large.*row 2, column a.*1e\\+308.*float32"),
        ("numbers:table", {"uri": "huge.csv", "target": "a"}, "too large.*row 2, column a"),
        ("text:windows", {"uri": "text.txt", "length": 0}, "no length of a row.*0"),
        ("text:windows", {"uri": "text.txt", "length": 2.5}, "no length of a row"),
        ("text:labelled", {"uri": "lines.jsonl", "length": -1}, "no length of a row.*-1"),
        ("text:labelled", {"uri": "one.jsonl"}, "one class only.*found: a"),
        ("text:labelled", {"uri": "null.jsonl"}, "null.jsonl, line 2.*neither of them null"),
    ],
)
def test_data_that_cannot_be_meant_is_refused(
    data: Path, file_store: ObjectStore, attempt: Attempt, function: str, arguments: dict[str, Any], message: str
) -> None:
    (data / "target.csv").write_text("y\n" + "1\n" * 20)
    (data / "huge.csv").write_text("a,y\n1,2\n1e308,3\n" + "1,2\n" * 20)
    (data / "one.jsonl").write_text('{"text": "x", "label": "a"}\n' * 8)
    (data / "null.jsonl").write_text('{"text": "x", "label": "a"}\n{"text": "x", "label": null}\n' * 8)
    uri = arguments["uri"]
    if isinstance(uri, str) and "." in uri and "://" not in uri:
        arguments = {**arguments, "uri": str(data / uri)}
    with pytest.raises(UserError, match=message):
        result_of(
            attempt, file_store, model={"factory": "mlp", "arguments": {"hidden": [4]}},
            task="regression" if "numbers" in function else "text-classification",
            data=f"include.training.tasks.{function}", data_arguments=arguments,
        )  # fmt: skip


def test_seed_that_no_generator_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        TrainingSection(seed=2**70)
