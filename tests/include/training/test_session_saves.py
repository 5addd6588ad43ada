"""When a session saves: not while the save before runs, always at its end and at a notice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from include.config.workload import Workload
from include.core.errors import UserError
from include.core.store import ObjectStore
from include.training import blob_store, loop
from include.training.checkpoint import Checkpointer
from include.training.outcome import WorkerOutcome
from tests.support.training import tiny_workload, train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]
# 4 steps per epoch, 12 in all.
EACH_STEP = tiny_workload(checkpoint_every_steps=1)


def commits(store: ObjectStore, order: Workload) -> list[int]:
    prefix = train_request(write_dataset(store), order=order).run_prefix
    keys = [key.split("/") for key, _ in store.list(f"{prefix}/checkpoints") if key.endswith("COMMIT.json")]
    return sorted(int(key[-2].split("-")[1]) for key in keys)


@pytest.fixture
def slow_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs are not written until a second save is asked for."""
    opened, asked, write, save = threading.Event(), [], blob_store.BlobStore.write, Checkpointer.save

    def late(self: blob_store.BlobStore, content: Any) -> int:
        assert opened.wait(30)
        return write(self, content)

    def noted(self: Checkpointer, *arguments: Any, **more: Any) -> None:
        asked.append(more["step"])
        if len(asked) > 1:
            opened.set()
        save(self, *arguments, **more)

    monkeypatch.setattr(blob_store.BlobStore, "write", late)
    monkeypatch.setattr(Checkpointer, "save", noted)


@pytest.mark.usefixtures("slow_saves")
def test_periodic_saves_are_left_out_while_one_runs_and_the_last_one_never(
    file_store: ObjectStore, attempt: Attempt, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outcome = attempt(train_request(write_dataset(file_store), order=EACH_STEP), file_store)
    assert outcome.status == "done"
    assert commits(file_store, EACH_STEP) == [1, 12]
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if "no save" in line] == [
        f"step {step}: no save, since the one before is still under way" for step in range(2, 12)
    ]


def test_saves_go_on_at_the_next_boundary_once_the_earlier_one_has_ended(
    file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    save = Checkpointer.save

    def busy_now_and_then(self: Checkpointer) -> bool:
        asked.append(1)
        return len(asked) in (2, 3)

    def save_and_settle(self: Checkpointer, *arguments: Any, **more: Any) -> None:
        save(self, *arguments, **more)
        self.settle()

    monkeypatch.setattr(Checkpointer, "busy", property(busy_now_and_then))
    monkeypatch.setattr(Checkpointer, "save", save_and_settle)
    order = tiny_workload(checkpoint_every_steps=2)
    attempt(train_request(write_dataset(file_store), order=order), file_store)
    assert commits(file_store, order) == [2, 8, 10, 12]


@pytest.mark.usefixtures("slow_saves")
def test_the_save_of_a_notice_waits_for_the_one_before(file_store: ObjectStore, attempt: Attempt) -> None:
    outcome = attempt(train_request(write_dataset(file_store), order=EACH_STEP), file_store, 4)
    assert (outcome.status, outcome.step) == ("preempted", 4)
    assert commits(file_store, EACH_STEP) == [1, 4]


@pytest.mark.usefixtures("quick_saves")
def test_the_workload_says_which_checkpoints_stay_and_may_change_its_mind(
    file_store: ObjectStore, attempt: Attempt
) -> None:
    def order(**keep: int) -> Workload:
        return tiny_workload(checkpoint_every_steps=1, keep_checkpoints=keep)

    few = order(last=2, best=0, every_steps=5)
    assert attempt(train_request(write_dataset(file_store), order=few), file_store, 8).status == "preempted"
    assert commits(file_store, few) == [5, 7, 8]
    # What stays is no part of what makes a training the same.
    more = order(last=3, best=0)
    outcome = attempt(train_request(write_dataset(file_store), order=more, attempt=2), file_store)
    assert outcome.result is not None
    assert outcome.result.resumed_step == 8
    assert commits(file_store, more) == [10, 11, 12]


@pytest.mark.usefixtures("quick_saves")
def test_the_checkpoint_with_the_best_metric_stays(
    file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = iter((0.5, 0.9, 0.7))
    monkeypatch.setattr(loop, "measure", lambda *_, **__: next(measured))
    order = tiny_workload(checkpoint_every_steps=1, keep_checkpoints={"last": 1, "best": 1})
    attempt(train_request(write_dataset(file_store), order=order), file_store)
    # Measured at the ends of the epochs: steps 4, 8 and 12.
    assert commits(file_store, order) == [8, 12]


@pytest.mark.usefixtures("quick_saves")
@pytest.mark.parametrize("poisoned", [6, 12])
def test_a_state_that_is_not_finite_is_neither_committed_nor_delivered(
    poisoned: int, file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of the step was finite, its gradient was not: as of the square root of zero."""
    whole, steps = loop.forward_backward, []

    def poison(model: torch.nn.Module, **more: Any) -> torch.Tensor:
        loss = whole(model, **more)
        steps.append(1)
        if len(steps) == poisoned:
            next(model.parameters()).grad.fill_(float("nan"))  # type: ignore[union-attr] - it was just made
        return loss

    order = tiny_workload(checkpoint_every_steps=2)
    request = train_request(write_dataset(file_store), order=order)
    monkeypatch.setattr(loop, "forward_backward", poison)
    with pytest.raises(UserError, match=r"diverged.*not finite.*model\.\d"):
        attempt(request, file_store)
    assert commits(file_store, order) == list(range(2, poisoned, 2))
    assert not list(file_store.list(f"{request.run_prefix}/weights"))
    monkeypatch.undo()
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    again = attempt(train_request(write_dataset(file_store), order=order, attempt=2), file_store)
    assert again.result is not None
    assert again.result.resumed_step == poisoned - 2


def test_what_no_checkpoint_can_hold_is_refused_before_the_first_step(
    file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    from include.training import session

    build = session.build_model

    def with_rotations(*arguments: Any, **more: Any) -> torch.nn.Module:
        model = build(*arguments, **more)
        model.register_buffer("rotations", torch.ones(4, dtype=torch.complex64))
        return model

    monkeypatch.setattr(session, "build_model", with_rotations)
    with pytest.raises(UserError, match=r"cannot hold.*rotations.*complex64.*persistent=False"):
        attempt(train_request(write_dataset(file_store), order=EACH_STEP), file_store)
    assert commits(file_store, EACH_STEP) == []


@pytest.mark.usefixtures("quick_saves")
def test_a_plan_that_saves_less_often_than_once_per_epoch_is_kept(file_store: ObjectStore, attempt: Attempt) -> None:
    order = tiny_workload(epochs=6, keep_checkpoints={"last": 10})  # 4 steps per epoch
    request = train_request(write_dataset(file_store), order=order, checkpoint_every_steps=8, interruptions_per_h=1e-9)
    attempt(request, file_store)
    assert commits(file_store, order) == [8, 16, 24]


@pytest.mark.usefixtures("quick_saves")
def test_a_save_that_was_asked_for_comes_at_once_and_the_others_when_they_are_due(
    file_store: ObjectStore, attempt: Attempt
) -> None:
    order = tiny_workload(checkpoint_every_steps=5)
    outcome = attempt(train_request(write_dataset(file_store), order=order), file_store, files={"checkpoint-now": ""})
    assert outcome.status == "done"
    assert commits(file_store, order) == [1, 5, 10, 12]
