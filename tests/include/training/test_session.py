from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

from include.config.job_messages import TrainResult
from include.core.contracts.plan import Layout
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.training import loop
from include.training.model_factory import build_model
from include.training.outcome import WorkerOutcome
from include.training.weights import load_weights, weights_digest
from tests.support.training import CNN, FEATURES, ROWS, tiny_workload, train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]
pytestmark = pytest.mark.usefixtures("quick_saves")


def finished(outcome: WorkerOutcome) -> TrainResult:
    assert outcome.status == "done"
    assert outcome.result is not None
    return outcome.result


def commits(store: ObjectStore, run_prefix: str) -> list[str]:
    keys = [key for key, _ in store.list(f"{run_prefix}/checkpoints") if key.endswith("COMMIT.json")]
    return sorted(key.split("/")[-2] for key in keys)


def test_training_learns_and_reports_what_it_measured(any_store: ObjectStore, attempt: Attempt) -> None:
    order = tiny_workload(epochs=8)
    request = train_request(write_dataset(any_store), order=order)
    result = finished(attempt(request, any_store))
    assert result.steps == 8 * 4
    assert result.metrics["validation_accuracy"] > 0.9
    assert 0 < result.metrics["train_loss"] < 0.7
    assert result.samples_per_s is not None
    assert result.samples_per_s == pytest.approx(8 * ROWS["train"] / result.useful_s)
    assert result.checkpoint_save_s is not None
    assert result.resumed_step == 0
    # Without an interval: one checkpoint per epoch.
    assert commits(any_store, request.run_prefix) == sorted(f"step-{step}-1" for step in range(4, 33, 4))
    assert result.checkpoint_uri.endswith("step-32-1")
    model = build_model(order.model, input_shape=(FEATURES,), classes=3)
    load_weights(model, store=any_store, uri=result.weights_uri)
    assert weights_digest(model) == result.weights_digest
    assert result.weights_uri.endswith(f"weights/{result.weights_digest}.safetensors")


@pytest.mark.parametrize(
    ("shape", "training", "layout"),
    [
        ((16,), {}, None),
        ((16,), {"optimizer": "sgd", "schedule": "constant"}, None),
        ((16,), {"precision": "bf16"}, None),
        ((1, 4, 4), {"model": CNN}, Layout(micro_batch=12, accumulation=3)),
    ],
)
def test_interrupted_training_equals_the_uninterrupted_one_bit_for_bit(
    shape: tuple[int, ...],
    training: dict[str, object],
    layout: Layout | None,
    tmp_path: Path,
    attempt: Attempt,
) -> None:
    order = tiny_workload(**training)
    whole, broken = ObjectStore(f"file://{tmp_path}/whole"), ObjectStore(f"file://{tmp_path}/broken")
    dataset = write_dataset(whole, shape=shape)
    straight = finished(attempt(train_request(dataset, order=order, layout=layout), whole))
    dataset = write_dataset(broken, shape=shape)
    # Notices in the middle of an epoch, right at its end, and in the first step of an attempt.
    for number, steps, at in ((1, 3, 3), (2, 5, 8), (3, 1, 9)):
        notice = attempt(train_request(dataset, order=order, attempt=number, layout=layout), broken, steps)
        assert (notice.status, notice.step) == ("preempted", at)
        assert notice.checkpoint_uri.endswith(f"step-{at}-{number}")
    resumed = finished(attempt(train_request(dataset, order=order, attempt=4, layout=layout), broken))
    assert resumed.resumed_step == 9
    assert resumed.weights_digest == straight.weights_digest
    assert resumed.metrics == straight.metrics


def test_account_of_steps_adds_up_without_a_loss(file_store: ObjectStore, attempt: Attempt) -> None:
    dataset = write_dataset(file_store)
    attempt(train_request(dataset), file_store, 3)
    attempt(train_request(dataset, attempt=2), file_store)
    first, second = (json.loads((folder / "steps.json").read_text()) for folder in attempt.folders)
    assert (first["resumed_step"], first["last_executed_step"], first["committed_step"]) == (0, 3, 3)
    assert (second["resumed_step"], second["last_executed_step"]) == (3, 12)
    assert second["useful_s"] > 0


def test_progress_ends_at_one_with_epoch_and_accuracy(file_store: ObjectStore, attempt: Attempt) -> None:
    attempt(train_request(write_dataset(file_store)), file_store)
    shown = json.loads((attempt.folders[0] / "progress.json").read_text())
    assert {"fraction": 1.0, "step": 12, "total": 12, "epoch": 3, "epochs": 3}.items() <= shown.items()
    assert shown["loss"] > 0
    assert shown["samples_per_s"] > 0
    assert 0 <= shown["validation_accuracy"] <= 1


def test_attempt_after_the_end_executes_nothing_and_reports_the_same(file_store: ObjectStore, attempt: Attempt) -> None:
    dataset = write_dataset(file_store)
    first = finished(attempt(train_request(dataset), file_store))
    again = finished(attempt(train_request(dataset, attempt=2), file_store))
    assert again.samples_per_s is None
    assert again.checkpoint_save_s is None
    assert (again.resumed_step, again.checkpoint_uri) == (12, first.checkpoint_uri)
    assert (again.weights_digest, again.metrics) == (first.weights_digest, first.metrics)


@pytest.mark.parametrize(("asked", "of_workload", "expected"), [(5, 7, [5, 10, 12]), (None, 7, [7, 12])])
def test_interval_of_the_request_goes_before_that_of_the_workload(
    asked: int | None, of_workload: int, expected: list[int], file_store: ObjectStore, attempt: Attempt
) -> None:
    order = tiny_workload(checkpoint_every_steps=of_workload)
    request = train_request(write_dataset(file_store), order=order, checkpoint_every_steps=asked)
    attempt(request, file_store)
    assert commits(file_store, request.run_prefix) == sorted(f"step-{step}-1" for step in expected)


@pytest.mark.parametrize("damage", ["no commit", "bit", "missing file", "short", "commit garbage", "commit bit"])
def test_damaged_checkpoint_is_passed_over_with_its_reason_and_changes_nothing(
    damage: str, file_store: ObjectStore, attempt: Attempt
) -> None:
    dataset = write_dataset(file_store)
    request = train_request(dataset)
    straight = finished(attempt(request, file_store))
    newest = f"{request.run_prefix}/checkpoints/step-12-1"
    reason = spoil(file_store, newest, damage)
    second = finished(attempt(train_request(dataset, attempt=2), file_store))
    assert second.skipped == (("step-12-1", second.skipped[0][1]),)
    assert reason in second.skipped[0][1]
    assert second.resumed_step == 8
    assert second.weights_digest == straight.weights_digest
    assert second.checkpoint_uri.endswith("step-12-2")


def spoil(store: ObjectStore, checkpoint: str, damage: str) -> str:
    commit = f"{checkpoint}/COMMIT.json"
    document = store.get(commit)
    assert document is not None
    weights = f"{checkpoint.rpartition('/')[0]}/blobs/{json.loads(document)['blobs'][0]['sha256']}.safetensors"
    data = store.get(weights)
    assert data is not None
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    match damage:
        case "no commit":
            store.delete(commit)
            return "no COMMIT.json"
        case "bit":
            store.put(weights, bytes(flipped))
            return "differs from its digest"
        case "missing file":
            store.delete(weights)
            return "is missing"
        case "short":
            store.put(weights, data[:-1])
            return "bytes instead of"
        case "commit garbage":
            store.put(commit, document[:-5])
            return "not readable"
        case _:
            store.put(commit, document.replace(b'"config_hash": "', b'"config_hash": "f', 1))
            return "damaged"


def test_another_configuration_is_refused(file_store: ObjectStore, attempt: Attempt) -> None:
    dataset = write_dataset(file_store)
    attempt(train_request(dataset), file_store, 3)
    with pytest.raises(UserError, match=r"another configuration.*step-3-1"):
        attempt(train_request(dataset, attempt=2, order=tiny_workload(lr=0.02)), file_store)


def test_other_data_is_refused(file_store: ObjectStore, attempt: Attempt) -> None:
    attempt(train_request(write_dataset(file_store)), file_store, 3)
    with pytest.raises(UserError, match="other data"):
        attempt(train_request(write_dataset(file_store, fingerprint="other"), attempt=2), file_store)


def test_another_checkpoint_interval_is_the_same_training(file_store: ObjectStore, attempt: Attempt) -> None:
    dataset = write_dataset(file_store)
    attempt(train_request(dataset), file_store, 3)
    order = tiny_workload(checkpoint_every_steps=2)
    assert finished(attempt(train_request(dataset, attempt=2, order=order), file_store)).resumed_step == 3


def test_diverging_training_names_the_step_and_what_to_try(file_store: ObjectStore, attempt: Attempt) -> None:
    order = tiny_workload(optimizer="sgd", lr=10, weight_decay=1, epochs=400)
    with pytest.raises(UserError, match=r"not finite.*step \d+ of 1600.*lower training\.lr"):
        attempt(train_request(write_dataset(file_store), order=order), file_store)


def test_empty_split_and_absent_dataset_are_refused(file_store: ObjectStore, attempt: Attempt) -> None:
    empty = write_dataset(file_store, rows={"train": 100, "validation": 0, "test": 40})
    with pytest.raises(DataError, match="validation"):
        attempt(train_request(empty), file_store)
    with pytest.raises(UserError, match="no dataset"):
        attempt(train_request(empty).model_copy(update={"dataset": None}), file_store)


def test_layout_of_several_workers_is_refused(file_store: ObjectStore, attempt: Attempt) -> None:
    request = train_request(write_dataset(file_store), layout=Layout(micro_batch=32, replicate=2))
    with pytest.raises(UserError, match=r"layout\.replicate"):
        attempt(request, file_store)


def test_checkpoints_are_readable_without_pickle(file_store: ObjectStore, attempt: Attempt) -> None:
    request = train_request(write_dataset(file_store))
    attempt(request, file_store)
    keys = [key for key, _ in file_store.list(f"{request.run_prefix}/checkpoints")]
    assert {key.rpartition(".")[2] for key in keys} == {"safetensors", "json"}
    base = f"{request.run_prefix}/checkpoints"
    blobs = file_store.get_json(f"{base}/step-12-1/COMMIT.json")["blobs"]
    tensors = {}
    for blob in blobs:
        data = file_store.get(f"{base}/blobs/{blob['sha256']}.safetensors")
        assert data is not None
        tensors |= safetensors.torch.load(data)
    assert int(tensors["position.offset"]) == 3 * ROWS["train"]


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_lack_of_memory_names_the_micro_batch_and_what_to_try(
    error: Exception, file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> torch.Tensor:
        raise error

    monkeypatch.setattr(loop, "forward_backward", fail)
    with pytest.raises(UserError, match=r"out of memory.*step 1 of 12.*micro-batch 32.*smaller micro-batch"):
        attempt(train_request(write_dataset(file_store)), file_store)
