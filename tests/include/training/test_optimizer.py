from __future__ import annotations

import pytest
import torch

from include.config.workload import TrainingSection
from include.training.optimizer import build_optimizer, learning_rate, set_learning_rate


def test_cosine_falls_from_the_base_rate_to_nothing() -> None:
    training = TrainingSection(lr=0.1, schedule="cosine")
    rates = [learning_rate(training, step=step, total_steps=10) for step in range(11)]
    assert rates[0] == 0.1
    assert rates[5] == pytest.approx(0.05)
    assert rates[10] == pytest.approx(0)
    assert rates == sorted(rates, reverse=True)


def test_constant_stays() -> None:
    training = TrainingSection(lr=0.1, schedule="constant")
    assert {learning_rate(training, step=step, total_steps=10) for step in range(10)} == {0.1}


@pytest.mark.parametrize(
    ("name", "kind"), [("adamw", torch.optim.AdamW), ("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)]
)
def test_workload_names_the_optimizer(name: str, kind: type) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = build_optimizer(model, TrainingSection(optimizer=name, lr=0.5, weight_decay=0.25))
    assert isinstance(optimizer, kind)
    assert optimizer.param_groups[0]["weight_decay"] == 0.25
    set_learning_rate(optimizer, 0.125)
    assert optimizer.param_groups[0]["lr"] == 0.125
