"""Model, loss, metric and data of a user that do not work: one clear error before anything is paid for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

import include.training.tasks
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.training.batches import Examples, MemorySource
from include.training.imports import load_callable
from include.training.models import mlp
from include.training.outcome import WorkerOutcome
from include.training.tasks import numbers
from include.training.tasks.data import TaskData
from tests.support.training import tiny_workload, train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]
PACKAGES = ("include.training.tasks",)


def rows(count: int, *, width: int = 4, labels: torch.Tensor | None = None) -> MemorySource:
    if labels is None:
        labels = torch.arange(count) % 2
    return MemorySource(Examples(inputs=torch.randn(count, width), labels=labels), seed=1)


def task_data(train: MemorySource | None = None, validation: MemorySource | None = None) -> TaskData:
    train, validation = train or rows(32), validation or rows(8)
    return TaskData(train=train, validation=validation, input_shape=(4,), classes=2, fingerprint="mine")


def total(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, targets, reduction="sum")


@pytest.fixture
def run(file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WorkerOutcome]:
    """``run(loss=..., metric=..., data=..., factory=...)``: one attempt with functions of the test as the user's."""

    def go(**functions: Callable[..., Any]) -> WorkerOutcome:
        model: dict[str, Any] = {"factory": "mlp", "arguments": {"hidden": [8]}}
        made = functions.pop("factory", None)
        if made is not None:
            # The small workload gives its model arguments.
            functions["factory"] = lambda *shape, **_: made(*shape)
        for name, function in functions.items():
            monkeypatch.setattr(mlp if name == "factory" else numbers, f"my_{name}", function, raising=False)
        if "factory" in functions:
            model = {"factory": "include.training.models.mlp:my_factory"}
        own = {name: f"include.training.tasks.numbers:my_{name}" for name in functions if name != "factory"}
        request = train_request(write_dataset(file_store), order=tiny_workload(model=model, epochs=2, **own))
        return attempt(request, file_store)

    return go


def gives(value: object) -> Callable[..., object]:
    return lambda *_, **__: value


def raises(error: BaseException) -> Callable[..., object]:
    def function(*_: object, **__: object) -> object:
        raise error

    return function


@pytest.mark.parametrize(
    ("part", "function", "message"),
    [
        ("loss", lambda o, t: functional.cross_entropy(o, t, reduction="none"), r"not one number.*shape \(2,\)"),
        ("loss", lambda o, t: total(o, t).reshape(1), r"not one number.*shape \(1,\)"),
        ("loss", lambda o, t: total(o, t).detach(), "not one number.*without a gradient"),
        ("loss", gives(1.0), "not one number.*a float"),
        ("loss", raises(KeyError("weight")), r"the loss.* failed \| where: training.loss \| found: KeyError: 'weight'"),
        ("loss", raises(SystemExit("bye")), "the loss.* failed.*SystemExit: bye"),
        ("loss", lambda o: o.sum(), "the loss.* failed.*takes 1 positional argument"),
        ("metric", lambda o, t: (o.argmax(1) == t).float().mean(), "no pair of a sum and a count"),
        ("metric", gives((torch.tensor(0.0), 0)), "no pair of a sum and a count"),
        ("metric", gives(("good", 2)), "no pair of a sum and a count"),
        ("metric", raises(RuntimeError("no")), r"the metric.* failed \| where: training.metric"),
        ("factory", raises(KeyError("width")), r"the model factory failed.*KeyError: 'width'.*in function"),
        ("factory", raises(SystemExit(0)), "the model factory failed.*SystemExit"),
        ("factory", lambda i, c: torch.nn.LazyLinear(c), "no shape yet.*weight"),
        ("factory", lambda i, c: torch.nn.Linear(i[0], 1), "not one logit per class.*shape .2, 1."),
        ("factory", lambda i, c: torch.nn.LSTM(i[0], c), "output is no tensor.*tuple"),
        ("factory", lambda i, c: torch.nn.Linear(7, c), r"given rows of shape \(16,\).*failed \| where: model.factory"),
        ("data", gives(None), "the data function made no rows.*NoneType"),
        ("data", raises(TypeError("a bug inside")), r"function failed \| where: training.data \|.*a bug inside"),
        ("data", lambda s, *, seed: task_data(rows(0)), "the training split has no rows"),
        ("data", lambda s, *, seed: task_data(validation=rows(0)), "the validation split has no rows"),
        ("data", lambda s, *, seed: task_data(rows(8, labels=torch.arange(8))), "no class.*from 0 to 7.*0 to 1"),
        ("data", lambda s, *, seed: task_data(rows(8, labels=torch.rand(8))), r"failed \| where: training.task"),
        ("data", lambda s, *, seed: task_data(rows(8, labels=torch.zeros(4, dtype=torch.int64))), "8 inputs, 4 labels"),
    ],
)  # fmt: skip
def test_what_does_not_work_is_one_error_before_the_first_step(
    run: Callable[..., WorkerOutcome], part: str, function: Callable[..., object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(**{part: function})


def test_arguments_that_a_data_function_does_not_know_are_told_as_such(run: Callable[..., WorkerOutcome]) -> None:
    with pytest.raises(UserError, match=r"wrong arguments \| where: training.data_arguments"):
        run(data=lambda settings: task_data())


def test_failure_in_a_later_step_names_the_function_too(run: Callable[..., WorkerOutcome]) -> None:
    calls: list[int] = []

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("third")
        return total(outputs, targets)

    with pytest.raises(UserError, match=r"the loss failed \| where: training.loss \| found: ValueError: third"):
        run(loss=loss)


@pytest.mark.parametrize("figure", [float("nan"), float("inf")])
def test_finished_training_survives_a_metric_that_is_no_number(
    run: Callable[..., WorkerOutcome], figure: float
) -> None:
    answers = iter([1.0])
    outcome = run(metric=lambda o, t: (torch.tensor(next(answers, figure)), len(t)))
    assert outcome.status == "done"
    assert "train_loss" in outcome.result.metrics
    assert not [name for name in outcome.result.metrics if name.startswith("validation_")]


def test_trial_changes_neither_weights_nor_buffers_nor_random_numbers(run: Callable[..., WorkerOutcome]) -> None:
    def factory(input_shape: tuple[int, ...], classes: int) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(input_shape[0], 8),
            torch.nn.BatchNorm1d(8),
            torch.nn.Dropout(0.5),
            torch.nn.Linear(8, classes),
        )

    with_trial = run(factory=factory)
    without = pytest.MonkeyPatch()
    without.setattr("include.training.session.needs_trial", lambda workload: False)
    try:
        assert run(factory=factory).result.weights_digest == with_trial.result.weights_digest
    finally:
        without.undo()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("garbled", "def broken(:\n", r"SyntaxError.*garbled.py, line 1"),
        ("lacking", "import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raising", "raise RuntimeError('at import')\n", "RuntimeError: at import .raising.py, line 1"),
        ("leaving", "import sys\nsys.exit(3)\n", "SystemExit: 3"),
    ],
)
def test_module_that_cannot_be_imported_is_named(
    name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(include.training.tasks, "__path__", [*include.training.tasks.__path__, str(tmp_path)])
    module = f"include.training.tasks.{name}"
    request.addfinalizer(lambda: sys.modules.pop(module, None))
    with pytest.raises(UserError, match=f"the import of {module} failed.*where: training.loss.*{message}"):
        load_callable(f"{module}:loss", packages=PACKAGES, where="training.loss")


def test_errors_that_are_clear_already_pass() -> None:
    with pytest.raises(DataError, match="one label per input"):
        Examples(inputs=torch.zeros(2, 1), labels=torch.zeros(3))
