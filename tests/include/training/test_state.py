from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from include.training.random_state import random_state, restore_random_state
from include.training.state import TrainState


def build(*, frozen: bool = False, scaler: torch.amp.GradScaler | None = None) -> TrainState:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    if frozen:
        model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    return TrainState(model=model, optimizer=optimizer, scaler=scaler)


def step(state: TrainState) -> float:
    loss = state.model(torch.randn(8, 4)).square().mean()
    loss.backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.step += 1
    return loss.item()


@pytest.mark.parametrize("frozen", [False, True])
def test_restored_state_goes_on_as_the_saved_one(frozen: bool) -> None:
    first = build(frozen=frozen)
    for _ in range(3):
        step(first)
    saved = {name: value.detach().clone() for name, value in first.to_tensors().items()}
    straight = [step(first) for _ in range(3)]
    second = build(frozen=frozen)
    targets = second.targets(saved)
    assert targets.keys() == saved.keys()
    with torch.no_grad():
        for name, value in targets.items():
            value.copy_(saved[name])
    second.restore(targets)
    assert (second.step, second.offset) == (3, 0)
    assert [step(second) for _ in range(3)] == straight


def test_frozen_parameters_have_no_state_of_an_optimizer() -> None:
    state = build(frozen=True)
    step(state)
    names = state.to_tensors()
    assert not [name for name in names if name.startswith("optimizer.") and ".0." in name]
    assert not names["model.0.weight"].requires_grad
    assert names["model.3.weight"].requires_grad


def test_there_is_nothing_to_save_before_the_first_step() -> None:
    with pytest.raises(ValueError, match="before the first step"):
        build().to_tensors()


def test_loss_scaler_is_restored() -> None:
    first = build(scaler=torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2))
    assert first.scaler is not None
    for _ in range(3):
        loss = first.model(torch.randn(8, 4)).square().mean()
        first.scaler.scale(loss).backward()
        first.scaler.step(first.optimizer)
        first.scaler.update()
        first.optimizer.zero_grad()
        first.step += 1
    saved = first.to_tensors()
    assert (float(saved["scaler.scale"]), int(saved["scaler.growth_tracker"])) == (2048.0, 1)
    second = build(scaler=torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2))
    second.restore({name: value.detach().clone() for name, value in saved.items()})
    assert second.scaler is not None
    assert second.scaler.state_dict() == first.scaler.state_dict()


def draw() -> tuple[float, float, float, float]:
    return (random.random(), random.gauss(0, 1), float(np.random.standard_normal()), float(torch.rand(1)))


def test_all_generators_go_on_where_they_were() -> None:
    draw()  # leaves a spare number in both generators that keep one
    saved = random_state(rank=0, world=1)
    expected = [draw() for _ in range(3)]
    restore_random_state(saved, rank=0, world=1, step=7)
    assert [draw() for _ in range(3)] == expected


def test_generators_of_another_number_of_workers_begin_anew_each_in_its_own_way() -> None:
    torch.manual_seed(5)
    saved = random_state(rank=0, world=1)
    drawn = {}
    for rank in (0, 1, 0):
        torch.manual_seed(5)
        restore_random_state(saved, rank=rank, world=2, step=7)
        drawn.setdefault(rank, []).append(draw()[0::3])
    assert drawn[0][0] == drawn[0][1] != drawn[1][0]
