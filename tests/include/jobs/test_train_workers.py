"""Two workers on one machine under torchrun: told to stop together, resumed on another layout."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from include.config.job_messages import TrainResult
from include.config.settings import Settings
from include.core.contracts.plan import Layout
from include.core.store import ObjectStore
from tests.support.training import RunningJob, tiny_workload, train_request, write_dataset

ROWS = {"train": 650, "validation": 40, "test": 40}
STEPS = 400
ORDER = tiny_workload(hidden=(512, 512), steps=STEPS, lr=0.001, checkpoint_every_steps=50)
LAYOUTS = (
    Layout(replicate=2, micro_batch=8, accumulation=2),
    Layout(shard=2, micro_batch=16, accumulation=1, activation_checkpointing="block"),
)


@pytest.mark.integration
def test_replicas_stop_at_one_step_and_go_on_as_shards(
    file_store: ObjectStore, settings_for: Callable[..., Settings], tmp_path: Path
) -> None:
    dataset = write_dataset(file_store, rows=ROWS)

    def start(attempt: int) -> RunningJob:
        request = train_request(dataset, attempt=attempt, order=ORDER, layout=LAYOUTS[attempt - 1])
        folder = tmp_path / f"job-{attempt}"
        return RunningJob(request, store=file_store, settings=settings_for(file_store), job_dir=folder)

    first = start(1)
    first.wait_for_step(60)
    # One of the two hears of it, as of a SIGTERM that torchrun passes on; both stop, at the same step.
    os.kill(first.worker_pid(), signal.SIGTERM)
    assert first.wait() == 75, first.log()
    step = first.document("outcome")["step"]
    account = first.document("steps")
    assert account["last_executed_step"] == account["committed_step"] == step
    second = start(2)
    assert second.wait() == 0, second.log()
    result = TrainResult.model_validate(second.document("result"))
    assert (result.resumed_step, result.steps, result.skipped) == (step, STEPS, ())
    assert result.metrics["validation_accuracy"] > 0.9
