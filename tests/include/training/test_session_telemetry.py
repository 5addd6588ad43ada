"""Telemetry of a session, from its steps to the launcher's verdict in the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from include.config.job_messages import TrainResult
from include.config.settings import Settings
from include.core.contracts.dataset import DatasetRef
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore
from include.training import launcher
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.telemetry.facts import RankTelemetry
from tests.support.diagnosis_series import step_facts
from tests.support.training import ROWS, train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]
RESULT = TrainResult(
    checkpoint_uri="c",
    weights_uri="w",
    weights_digest="d",
    steps=9,
    resumed_step=0,
    metrics={},
    samples_per_s=1.0,
    checkpoint_save_s=None,
    useful_s=1.0,
)


def left_in(folder: Path) -> RankTelemetry:
    return from_json(RankTelemetry, json.loads((folder / "telemetry.json").read_text()))


def test_session_leaves_where_the_time_of_its_steps_went(any_store: ObjectStore, attempt: Attempt) -> None:
    attempt(train_request(write_dataset(any_store)), any_store)
    steps = left_in(attempt.folders[0]).steps
    assert (steps.steps, steps.samples) == (12, 3 * ROWS["train"])
    assert 0 < steps.share("compute") < 1
    assert steps.share("data_wait") is not None
    assert steps.parts["save"].entries >= 1
    assert steps.evaluated_s > 0


def test_notice_leaves_telemetry_too_and_the_next_attempt_its_own(file_store: ObjectStore, attempt: Attempt) -> None:
    dataset = write_dataset(file_store)
    assert attempt(train_request(dataset), file_store, 5).status == "preempted"
    attempt(train_request(dataset, attempt=2), file_store)
    assert [left_in(folder).steps.steps for folder in attempt.folders] == [5, 7]


def test_profiled_training_is_bit_for_bit_the_same(file_store: ObjectStore, attempt: Attempt, tmp_path: Path) -> None:
    other = ObjectStore(f"file://{tmp_path}/other")
    plain = attempt(train_request(write_dataset(file_store)), file_store)
    profiled = attempt(train_request(write_dataset(other), inputs={"profile_steps": 2}), other)
    assert list((attempt.folders[1] / "traces").glob("*.json.gz"))
    assert not (attempt.folders[0] / "traces").exists()
    assert profiled.result.weights_digest == plain.result.weights_digest


@pytest.fixture
def launched(
    file_store: ObjectStore, settings_for: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, object]], tuple[WorkerOutcome | None, WorkerOrder]]:
    """``launched(files)``: launch a worker that leaves these files."""

    def run(files: dict[str, object]) -> tuple[WorkerOutcome | None, WorkerOrder]:
        dataset = DatasetRef(uri=file_store.uri("datasets/none/manifest.json"), fingerprint="none", rows={})
        job_dir = tmp_path / "job"
        job_dir.mkdir()
        order = WorkerOrder(request=train_request(dataset), settings=settings_for(file_store), job_dir=job_dir)
        code = "import json, pathlib, sys\n" + "".join(
            f"pathlib.Path({str(job_dir / name)!r}).write_text({json.dumps(value)!r})\n"
            for name, value in files.items()
        )
        monkeypatch.setattr(launcher, "_command", lambda *_: [sys.executable, "-c", code])
        return launcher.launch_training(order, store=file_store), order

    return run


WAITING = to_json(RankTelemetry(steps=step_facts(step_s=0.1, data_wait=0.5, compute=0.5)))


def test_result_has_the_verdict_and_the_store_the_measurements(launched: Callable, file_store: ObjectStore) -> None:
    done = WorkerOutcome(status="done", step=9, result=RESULT)
    outcome, order = launched({"worker_outcome.json": done.model_dump(mode="json"), "telemetry.json": WAITING})
    assert outcome.result.diagnosis.verdict == "data-bound"
    assert outcome.result.measured == outcome.measured
    assert outcome.measured.steps > 0
    assert outcome.result.model_copy(update={"diagnosis": None, "measured": None}) == RESULT
    document = file_store.get_json(f"{order.request.base}/telemetry.json")
    assert document["diagnosis"]["verdict"] == "data-bound"
    assert document["ranks"][0]["steps"]["steps"] == 3000


@pytest.mark.parametrize("status", ["preempted", "killed"])
def test_attempt_without_a_result_is_published_as_well(
    status: str, launched: Callable, file_store: ObjectStore
) -> None:
    files: dict[str, object] = {"worker_started.json": {"pid": 1}, "telemetry.json": WAITING}
    if status == "preempted":
        files["worker_outcome.json"] = WorkerOutcome(status="preempted", step=4).model_dump(mode="json")
    outcome, order = launched(files)
    assert (outcome and outcome.status) == ("preempted" if status == "preempted" else None)
    assert file_store.get_json(f"{order.request.base}/telemetry.json")["diagnosis"]["verdict"] == "data-bound"


def test_worker_without_telemetry_has_a_result_without_a_verdict(launched: Callable) -> None:
    done = WorkerOutcome(status="done", step=9, result=RESULT)
    outcome, _ = launched({"worker_outcome.json": done.model_dump(mode="json")})
    assert outcome == done
