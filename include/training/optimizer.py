"""Optimizer and learning-rate schedule of a workload."""

from __future__ import annotations

import math

import torch

from include.config.training_section import TrainingSection
from include.core.errors import UserError

_MOMENTUM = 0.9


def build_optimizer(
    model: torch.nn.Module, training: TrainingSection, *, foreach: bool | None = None
) -> torch.optim.Optimizer:
    """The optimizer that the workload names, of the parameters that are not frozen; SGD runs with a momentum of 0.9.

    Args:
        model: The model, already spread over its workers.
        training: The workload's training section.
        foreach: Whether parameters are updated in groups; parameters on different meshes cannot be.
    """
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if training.optimizer != "sgd":
        kind = torch.optim.Adam if training.optimizer == "adam" else torch.optim.AdamW
        return kind(learned, lr=training.lr, weight_decay=training.weight_decay, foreach=foreach)
    return torch.optim.SGD(
        learned, lr=training.lr, momentum=_MOMENTUM, weight_decay=training.weight_decay, foreach=foreach
    )


def refuse_endless_warmup(training: TrainingSection, *, total_steps: int) -> None:
    """Refuse a warm-up that the training would never leave.

    Raises:
        UserError: It is as long as the training.
    """
    if training.warmup_steps >= total_steps:
        raise UserError(
            "the warm-up is as long as the training",
            where="training.warmup_steps",
            found=str(training.warmup_steps),
            allowed=f"fewer than the {total_steps} steps of the training",
        )


def learning_rate(training: TrainingSection, *, step: int, total_steps: int) -> float:
    """Learning rate of a step, as a function of its number alone, so that a schedule has no state to restore.

    After a linear warm-up, ``cosine`` is one period of Loshchilov and Hutter, "SGDR" (2017), equation 5, with a minimum
    of 0 and no restart, and ``linear`` falls to 0.

    Args:
        training: The workload's training section.
        step: Steps already done, from 0.
        total_steps: Steps of the whole training.
    """
    warmup = training.warmup_steps
    if step < warmup:
        return training.lr * (step + 1) / warmup
    if training.schedule == "constant":
        return training.lr
    done, whole = step - warmup, total_steps - warmup
    if training.schedule == "linear":
        return training.lr * (1 - done / whole)
    return 0.5 * training.lr * (1 + math.cos(math.pi * done / whole))


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = value
