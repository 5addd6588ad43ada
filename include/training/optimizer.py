"""Optimizer and learning-rate schedule of a workload."""

from __future__ import annotations

import math

import torch

from include.config.workload import TrainingSection

_MOMENTUM = 0.9


def build_optimizer(model: torch.nn.Module, training: TrainingSection) -> torch.optim.Optimizer:
    """The optimizer that the workload names; SGD runs with a momentum of 0.9."""
    if training.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    return torch.optim.SGD(model.parameters(), lr=training.lr, momentum=_MOMENTUM, weight_decay=training.weight_decay)


def learning_rate(training: TrainingSection, *, step: int, total_steps: int) -> float:
    """Learning rate of a step, as a function of its number alone, so that a schedule has no state to restore.

    ``cosine`` is one period of Loshchilov and Hutter, "SGDR" (2017), equation 5, with a minimum of 0 and no restart.

    Args:
        training: The workload's training section.
        step: Steps already done, from 0.
        total_steps: Steps of the whole training.
    """
    if training.schedule == "constant":
        return training.lr
    return 0.5 * training.lr * (1 + math.cos(math.pi * step / total_steps))


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = value
