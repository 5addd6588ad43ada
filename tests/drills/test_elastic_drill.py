"""One worker becomes two and one again: no step is lost, and no error budget is used."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from include.config.settings import Settings
from include.core.contracts.plan import Layout
from include.core.store import ObjectStore
from tests.support.training import RunningJob, tiny_workload, train_request, write_dataset

ROWS = {"train": 640, "validation": 40, "test": 40}
BATCH = 32


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(600)
def test_one_worker_then_two_then_one(
    file_store: ObjectStore, settings_for: Callable[..., Settings], tmp_path: Path
) -> None:
    dataset, settings = write_dataset(file_store, rows=ROWS), settings_for(file_store)
    order = tiny_workload(hidden=(512, 512), steps=20_000, lr=0.0005, checkpoint_every_steps=200)
    meeting = {"endpoint": f"127.0.0.1:{free_port()}", "id": "drill", "min_nodes": 1, "max_nodes": 2}
    layout = Layout(micro_batch=BATCH)

    def node(number: int) -> RunningJob:
        request = train_request(dataset, order=order, layout=layout, rendezvous={**meeting, "host": number == 1})
        request = request.model_copy(update={"base": f"{request.base}-node-{number}"})
        return RunningJob(request, store=file_store, settings=settings, job_dir=tmp_path / f"node-{number}")

    first = node(1)
    first.wait_for_step(100)
    second = node(2)
    # The account starts again with the workers: what was committed at the notice is where two go on.
    second.wait_for_step(1)
    joined = second.account()["resumed_step"]
    assert joined >= 100
    second.wait_for_step(joined + 100)
    (second.job_dir / "notice.json").write_text("{}")
    assert second.wait() == 75, second.log()
    left = second.document("outcome")["step"]
    assert left >= joined + 100
    end = time.monotonic() + 120
    while first.account().get("resumed_step") != left and time.monotonic() < end:
        assert first.process.poll() is None, first.log()
        time.sleep(0.1)
    assert first.account()["resumed_step"] == left, first.log()
    first.wait_for_step(left + 100)
    (first.job_dir / "notice.json").write_text("{}")
    assert first.wait() == 75, first.log()
    account = first.document("steps")
    assert account["last_executed_step"] == account["committed_step"] == first.document("outcome")["step"]
    assert "training failed" not in first.log() + second.log()
