"""The train job as the agent runs it: real processes under torchrun, disturbed in every way it must survive."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from include.config.job_messages import TrainResult
from include.config.settings import Settings
from include.core.contracts.dataset import DatasetRef
from include.core.contracts.measured import OUT_OF_MEMORY, OutOfMemory
from include.core.contracts.plan import Layout
from include.core.errors import PlimsollError, PreemptedError, UserError
from include.core.json_codec import from_json
from include.core.store import ObjectStore
from include.jobs import train
from include.jobs.context import JobContext
from include.training.outcome import WorkerOrder, WorkerOutcome
from tests.support.training import RunningJob, tiny_workload, train_request, write_dataset

EPOCHS, ROWS = 10, {"train": 650, "validation": 40, "test": 40}
# 21 steps per epoch, the last one short; wide layers make a step long enough to be disturbed.
TOTAL, STEPS_PER_EPOCH = 210, 21
ORDER = tiny_workload(hidden=(512, 512), epochs=EPOCHS, lr=0.001)

Start = Callable[..., RunningJob]


@pytest.fixture
def start(tmp_path: Path, settings_for: Callable[..., Settings]) -> Start:
    """``start(store, dataset, attempt)``: start one attempt with an empty scratch folder of its own."""

    def run(store: ObjectStore, dataset: DatasetRef, attempt: int = 1, **fields: Any) -> RunningJob:
        request = train_request(dataset, attempt=attempt, **{"order": ORDER, **fields})
        job_dir = tmp_path / f"job-{attempt}"
        return RunningJob(request, store=store, settings=settings_for(store), job_dir=job_dir)

    return run


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    """Result of the same training without a disturbance, on files."""
    folder = tmp_path_factory.mktemp("straight")
    store = ObjectStore(f"file://{folder / 'store'}")
    request = train_request(write_dataset(store, rows=ROWS), order=ORDER)
    job = RunningJob(request, store=store, settings=Settings(store=store.url), job_dir=folder / "job")
    assert job.wait() == 0, job.log()
    assert job.document("outcome") == {"status": "done"}
    assert job.document("steps")["last_executed_step"] == TOTAL
    result = TrainResult.model_validate(job.document("result"))
    assert result.measured is not None
    assert (result.measured.steps, result.measured.device, result.measured.peak_device_bytes) == (TOTAL, "cpu", None)
    return result


def finish(job: RunningJob, straight: TrainResult, *, resumed_step: int) -> None:
    """Wait for the last attempt and compare it with the undisturbed training."""
    assert job.wait() == 0, job.log()
    result = TrainResult.model_validate(job.document("result"))
    assert result.resumed_step == resumed_step
    assert result.weights_digest == straight.weights_digest
    assert result.metrics == straight.metrics


@pytest.mark.integration
def test_notice_costs_no_step_and_the_weights_are_those_of_the_undisturbed_training(
    file_store: ObjectStore, start: Start, straight: TrainResult
) -> None:
    dataset = write_dataset(file_store, rows=ROWS)
    job = start(file_store, dataset)
    job.wait_for_step(50)
    (job.job_dir / "notice.json").write_text('{"action": "terminate"}')
    assert job.wait() == 75, job.log()
    outcome, account = job.document("outcome"), job.document("steps")
    assert outcome["status"] == "preempted"
    assert job.document("result") is None
    assert account["last_executed_step"] == account["committed_step"] == outcome["step"] < TOTAL
    assert f"step {outcome['step']} executed" in job.log()
    finish(start(file_store, dataset, attempt=2), straight, resumed_step=outcome["step"])


@pytest.mark.integration
def test_kill_of_the_worker_then_sigterm_to_the_job_on_s3(
    s3_store: ObjectStore, start: Start, straight: TrainResult
) -> None:
    dataset = write_dataset(s3_store, rows=ROWS)
    killed = start(s3_store, dataset)
    killed.wait_for_step(STEPS_PER_EPOCH, of="committed_step")
    killed.wait_for_step(STEPS_PER_EPOCH + 10)
    os.kill(killed.worker_pid(), signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, killed.log()
    account = killed.document("steps")
    assert account["exact"] is True
    assert killed.document("outcome") is None
    # The last commit was at the end of an epoch, the kill in the middle of one. Commits are made beside the steps, so
    # the account may not have heard of the last one.
    committed = killed.committed_step()
    assert committed % STEPS_PER_EPOCH == account["committed_step"] % STEPS_PER_EPOCH == 0
    assert STEPS_PER_EPOCH <= account["committed_step"] <= committed < account["last_executed_step"]

    told = start(s3_store, dataset, attempt=2)
    told.wait_for_step(committed + 30)
    told.process.send_signal(signal.SIGTERM)
    assert told.wait() == 75, told.log()
    assert told.document("steps")["resumed_step"] == committed
    finish(start(s3_store, dataset, attempt=3), straight, resumed_step=told.document("outcome")["step"])


@pytest.mark.integration
def test_nothing_outlives_a_killed_job(file_store: ObjectStore, start: Start) -> None:
    job = start(file_store, write_dataset(file_store, rows=ROWS))
    job.wait_for_step(5)
    family = psutil.Process(job.process.pid).children(recursive=True)
    assert job.worker_pid() in {process.pid for process in family}
    job.process.kill()
    job.wait()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize(
    ("outcome", "raised", "text"),
    [
        (WorkerOutcome(status="preempted", step=4, checkpoint_uri="file:///c"), PreemptedError, "step 4"),
        (WorkerOutcome(status="bad_input", message="the CNN needs images"), UserError, "the CNN needs images"),
        (WorkerOutcome(status="error", message="StoreError: gone"), PlimsollError, "StoreError: gone"),
    ],
)
def test_outcome_of_the_worker_decides_how_the_job_ends(
    outcome: WorkerOutcome,
    raised: type[Exception],
    text: str,
    file_store: ObjectStore,
    settings_for: Callable[..., Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train, "launch_training", lambda _order, store: outcome)
    dataset = DatasetRef(uri=file_store.uri("datasets/none/manifest.json"), fingerprint="none", rows={})
    context = JobContext(
        request=train_request(dataset), settings=settings_for(file_store), store=file_store, job_dir=tmp_path
    )
    with pytest.raises(raised, match=text) as caught:
        train.run(context)
    assert type(caught.value) is raised


@pytest.mark.parametrize(
    ("fallbacks", "second", "raised", "text"),
    [
        ((), None, UserError, "out of memory.*9.00 GB were predicted.*no other layout"),
        ((Layout(micro_batch=2, accumulation=16),), "out_of_memory", UserError, "out of memory.*were predicted"),
        ((Layout(micro_batch=2, accumulation=16),), "preempted", PreemptedError, "step 4"),
    ],
)
def test_out_of_memory_is_tried_once_more_on_the_next_layout(
    fallbacks: tuple[Layout, ...],
    second: str | None,
    raised: type[Exception],
    text: str,
    file_store: ObjectStore,
    settings_for: Callable[..., Settings],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched: list[Layout | None] = []
    outcomes = [WorkerOutcome(status="out_of_memory", message="out of memory: peak 8.00 GB measured")]
    if second is not None:
        outcomes.append(WorkerOutcome(status=second, message="out of memory again", step=4, checkpoint_uri="file:///c"))

    def launch(order: WorkerOrder, store: ObjectStore) -> WorkerOutcome:
        launched.append(order.request.layout)
        return outcomes[len(launched) - 1]

    monkeypatch.setattr(train, "launch_training", launch)
    dataset = DatasetRef(uri=file_store.uri("datasets/none/manifest.json"), fingerprint="none", rows={})
    first = Layout(micro_batch=4, accumulation=8)
    request = train_request(dataset, layout=first, fallback_layouts=fallbacks, predicted_peak_bytes=9 * 10**9)
    context = JobContext(request=request, settings=settings_for(file_store), store=file_store, job_dir=tmp_path)
    with pytest.raises(raised, match=text):
        train.run(context)
    assert launched == [first, *fallbacks]
    lesson = from_json(OutOfMemory, file_store.get_json(f"{request.base}/{OUT_OF_MEMORY}"))
    assert (lesson.layout, lesson.measured) == (first, None)
