"""A loop of plain torch that keeps itself alive through the callback contract."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def loop_in(folder: Path, **changed: Any) -> OwnLoop:
    folder.mkdir(exist_ok=True)
    given = {"run_prefix": "run", "attempt": 1, "settings": {"lr": 0.1}, "data": "line", "total_steps": TOTAL}
    return OwnLoop(store=ObjectStore(f"file://{folder}/store"), **{"job_dir": folder, **given, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"settings": {"layers": {1, 2}}}, "plain data alone.*settings.layers.*set"),
        ({"settings": {"model": object()}}, "plain data alone.*settings.model"),
        ({"settings": {"lr": float("nan")}}, "plain data alone.*settings.lr"),
        ({"settings": {1: 2}}, "plain data alone"),
        ({"run_prefix": "../x"}, "no prefix of a run"),
        ({"run_prefix": ""}, "no prefix of a run"),
        ({"attempt": "1"}, "where: attempt.*'1'.*1 or more"),
        ({"attempt": 0}, "where: attempt.*0"),
        ({"total_steps": 0}, "where: total_steps"),
        ({"job_dir": Path("/nowhere/at/all")}, "no such folder.*nowhere"),
    ],
)
def test_mistake_shows_when_the_loop_is_built(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        loop_in(tmp_path, **changed)


@pytest.mark.parametrize("step", [-1, 10.0, None, True, "10", float("nan")])
def test_step_that_is_no_number_is_refused_at_the_call(step: Any, tmp_path: Path) -> None:
    loop = loop_in(tmp_path)
    with pytest.raises(UserError, match="a whole number is needed"):
        loop.save({"w": torch.zeros(1)}, step=step)
    loop.save({"w": torch.ones(1)}, step=1, wait=True)
    assert loop_in(tmp_path, attempt=2).restore({"w": torch.zeros(1)}) == 1


@pytest.mark.parametrize("tensors", [{}, {"w": 5}, {"model": {"w": torch.zeros(1)}}, {1: torch.zeros(1)}, None])
def test_what_is_no_tensor_is_refused_at_the_call(tensors: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tensor.*where: save"):
        loop_in(tmp_path).save(tensors, step=1)


def test_step_is_saved_once_and_later_ones_go_on(tmp_path: Path) -> None:
    loop, weight = loop_in(tmp_path), torch.zeros(1)
    loop.save({"w": weight}, step=4)
    loop.save({"w": weight + 1}, step=4, wait=True)
    with pytest.raises(UserError, match=r"found: 3 .*4 or more"):
        loop.save({"w": weight}, step=3)
    loop.save({"w": weight + 2}, step=8, wait=True)
    assert loop_in(tmp_path, attempt=2).restore({"w": weight}) == 8
    assert weight.item() == 2


@pytest.mark.parametrize(
    ("into", "message"),
    [
        ({"w": torch.zeros(2)}, "not asked for: momentum"),
        ({"w": torch.zeros(2), "momentum": torch.zeros(2), "ema": torch.zeros(2)}, "not in it: ema"),
        ({"w": torch.zeros(2, dtype=torch.int64), "momentum": torch.zeros(2)}, "w is torch.int64.*torch.float32"),
    ],
)
def test_checkpoint_is_restored_in_whole_or_refused(
    into: dict[str, torch.Tensor], message: str, tmp_path: Path
) -> None:
    loop_in(tmp_path).save({"w": torch.ones(2), "momentum": torch.ones(2)}, step=5, wait=True)
    with pytest.raises(UserError, match=message):
        loop_in(tmp_path, attempt=2).restore(into)
    assert into["w"].tolist() == [0, 0]


def test_loss_may_be_a_tensor_and_may_be_no_number(tmp_path: Path) -> None:
    loop = loop_in(tmp_path)
    loop.report(step=TOTAL, loss=torch.tensor(0.25))
    assert json.loads((tmp_path / "progress.json").read_text())["loss"] == 0.25
    loop.report(step=TOTAL, loss=float("nan"))
    assert json.loads((tmp_path / "progress.json").read_text(), parse_constant=pytest.fail)["loss"] is None
    with pytest.raises(UserError, match=r"a number is needed.*report\(loss=\)"):
        loop.report(step=TOTAL, loss="low")  # type: ignore[arg-type] - the mistake under test


def test_checkpoint_of_other_settings_is_refused(file_store: ObjectStore, tmp_path: Path) -> None:
    run(file_store, tmp_path / "a", 1, notice_at=5)
    with pytest.raises(UserError, match="another configuration"):
        run(file_store, tmp_path / "b", 2, lr=0.2)
