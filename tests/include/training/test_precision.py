"""Precision, clipping, freezing, schedules: each through a whole session, interrupted and not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from include.config.workload import TrainingSection
from include.core.errors import UserError
from include.core.store import ObjectStore
from include.training.model_factory import build_model
from include.training.optimizer import learning_rate
from include.training.outcome import WorkerOutcome
from include.training.weights import load_weights
from tests.support.training import FEATURES, tiny_workload, train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]


@pytest.mark.parametrize(
    "training",
    [
        {"precision": "fp16"},
        {"clip_grad_norm": 0.5, "schedule": "linear", "warmup_steps": 3},
        {"freeze": ["1.*"], "steps": 10},
    ],
    ids=str,
)
def test_interrupted_equals_uninterrupted(training: dict[str, object], tmp_path: Path, attempt: Attempt) -> None:
    order = tiny_workload(**training)
    whole, broken = ObjectStore(f"file://{tmp_path}/whole"), ObjectStore(f"file://{tmp_path}/broken")
    straight = attempt(train_request(write_dataset(whole), order=order), whole).result
    dataset = write_dataset(broken)
    assert attempt(train_request(dataset, order=order), broken, 5).status == "preempted"
    resumed = attempt(train_request(dataset, order=order, attempt=2), broken).result
    assert straight is not None
    assert resumed is not None
    assert (resumed.weights_digest, resumed.metrics) == (straight.weights_digest, straight.metrics)
    assert resumed.steps == training.get("steps", 12)


def test_frozen_parameters_stay(file_store: ObjectStore, attempt: Attempt) -> None:
    order = tiny_workload(freeze=["1.*"])
    result = attempt(train_request(write_dataset(file_store), order=order), file_store).result
    assert result is not None
    torch.manual_seed(order.training.seed)
    fresh = build_model(order.model, input_shape=(FEATURES,), classes=3)
    trained = build_model(order.model, input_shape=(FEATURES,), classes=3)
    load_weights(trained, store=file_store, uri=result.weights_uri)
    same = {name: torch.equal(value, trained.state_dict()[name]) for name, value in fresh.state_dict().items()}
    assert same == {"1.weight": True, "1.bias": True, "4.weight": False, "4.bias": False}


@pytest.mark.parametrize(("globs", "message"), [(["encoder.*"], "no parameter"), (["*"], "nothing is left")])
def test_a_freeze_that_makes_no_sense_is_refused(
    globs: list[str], message: str, file_store: ObjectStore, attempt: Attempt
) -> None:
    with pytest.raises(UserError, match=message):
        attempt(train_request(write_dataset(file_store), order=tiny_workload(freeze=globs)), file_store)


def test_warmup_rises_and_the_rest_falls() -> None:
    training = TrainingSection(lr=0.1, schedule="linear", warmup_steps=4)
    rates = [learning_rate(training, step=step, total_steps=12) for step in range(13)]
    assert rates[:5] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[12] == pytest.approx(0)


def test_endless_warmup_is_refused(file_store: ObjectStore, attempt: Attempt) -> None:
    with pytest.raises(UserError, match=r"training\.warmup_steps"):
        attempt(train_request(write_dataset(file_store), order=tiny_workload(warmup_steps=12)), file_store)


@pytest.mark.parametrize(
    "wrong",
    [
        {"freeze": ["a;b"]},
        {"freeze": [""]},
        {"freeze": ["x"] * 65},
        {"clip_grad_norm": 0},
        {"clip_grad_norm": float("inf")},
        {"warmup_steps": -1},
        {"steps": 0},
        {"precision": "fp8"},
        {"compile": "maybe"},
    ],
    ids=str,
)
def test_hostile_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TrainingSection(**wrong)
