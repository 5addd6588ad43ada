"""A loop of plain torch that keeps itself alive through the callback contract."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from include.core.errors import UserError
from include.core.store import ObjectStore
from include.training.own_loop import OwnLoop
from include.training.progress import read_account

TOTAL = 12


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(store: ObjectStore, folder: Path, attempt: int, *, notice_at: int = 0, lr: float = 0.1) -> torch.Tensor:
    """The user's own loop: SGD with momentum on a line, in the order of the steps' numbers."""
    folder.mkdir()
    loop = OwnLoop(
        store=store,
        run_prefix="run",
        job_dir=folder,
        attempt=attempt,
        settings={"lr": lr},
        data="line",
        total_steps=TOTAL,
    )
    state = {"weight": torch.zeros(3), "momentum": torch.zeros(3)}
    for step in range(loop.restore(state) + 1, TOTAL + 1):
        inputs = torch.rand(8, 3, generator=torch.Generator().manual_seed(step))
        error = inputs @ state["weight"] - inputs.sum(dim=1)
        state["momentum"].mul_(0.9).add_(inputs.T @ error / 8)
        state["weight"].sub_(lr * state["momentum"])
        loop.report(step=step, loss=float(error.square().mean()), seconds=0.01, samples=8)
        if step == notice_at:
            (folder / "notice.json").write_text("{}")
        if loop.should_stop():
            loop.save(state, step=step, wait=True)
            break
        if step % 4 == 0:
            loop.save(state, step=step, wait=step == TOTAL)
    return state["weight"]


def test_interrupted_loop_equals_the_uninterrupted_one(any_store: ObjectStore, tmp_path: Path) -> None:
    straight = run(ObjectStore(f"file://{tmp_path}/whole"), tmp_path / "a", 1)
    run(any_store, tmp_path / "b", 1, notice_at=6)
    account = read_account(tmp_path / "b")
    assert account == {"resumed_step": 0, "last_executed_step": 6, "committed_step": 6, "useful_s": 0.06}
    assert torch.equal(run(any_store, tmp_path / "c", 2), straight)
    account = read_account(tmp_path / "c")
    assert account is not None
    assert (account["resumed_step"], account["last_executed_step"], account["committed_step"]) == (6, TOTAL, TOTAL)
    shown = json.loads((tmp_path / "c" / "progress.json").read_text())
    assert (shown["fraction"], shown["step"]) == (1.0, TOTAL)


def test_checkpoint_of_other_settings_is_refused(file_store: ObjectStore, tmp_path: Path) -> None:
    run(file_store, tmp_path / "a", 1, notice_at=5)
    with pytest.raises(UserError, match="another configuration"):
        run(file_store, tmp_path / "b", 2, lr=0.2)
