"""Loss and metric of each kind of task."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from include.config.training_section import ALLOWED_TASK_PACKAGES, TrainingSection
from include.parallel.step import LossSum, cross_entropy_sum
from include.training.imports import load_callable
from include.training.user_code import guarded

# Of outputs and targets: the sum of what is measured, and how many things it was measured on.
Metric = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is minimised and what is told to people.

    Attributes:
        loss_sum: The loss, summed over the rows.
        metric: Measured on the validation split.
        metric_name: Its name, as in ``validation_<name>``.
        larger_is_better: Whether a larger figure is a better one.
        finish: From the mean of the metric to the figure that is shown.
    """

    loss_sum: LossSum
    metric: Metric
    metric_name: str
    larger_is_better: bool = True
    finish: Callable[[float], float] = float


def hits(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Rows whose largest logit is at their label: outputs (rows, classes), targets (rows,)."""
    return (outputs.argmax(dim=1) == targets).sum(), len(targets)


def squared_error_sum(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Summed squared error of outputs (rows, 1) or (rows,) and targets (rows,)."""
    return functional.mse_loss(outputs.float().reshape(targets.shape), targets.float(), reduction="sum")


def absolute_error(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Summed absolute error of outputs (rows, 1) or (rows,) and targets (rows,)."""
    return (outputs.float().reshape(targets.shape) - targets).abs().sum(), len(targets)


def next_token_loss_sum(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum over rows of their tokens' mean cross-entropy: logits (rows, length, vocabulary), tokens (rows, length)."""
    loss = functional.cross_entropy(outputs.float().flatten(0, 1), targets.flatten(), reduction="sum")
    return loss / targets.shape[1]


def token_surprise(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Summed cross-entropy of all tokens, whose mean is the logarithm of the perplexity."""
    return functional.cross_entropy(outputs.float().flatten(0, 1), targets.flatten(), reduction="sum"), targets.numel()


_CLASSES = Task(loss_sum=cross_entropy_sum, metric=hits, metric_name="accuracy")
TASKS = {
    "classification": _CLASSES,
    "text-classification": _CLASSES,
    "regression": Task(
        loss_sum=squared_error_sum, metric=absolute_error, metric_name="mean_absolute_error", larger_is_better=False
    ),
    "causal-lm": Task(
        loss_sum=next_token_loss_sum,
        metric=token_surprise,
        metric_name="perplexity",
        larger_is_better=False,
        finish=math.exp,
    ),
}


def build_task(training: TrainingSection) -> Task:
    """The task of a training, with the user's own loss and metric (larger is better) where they are named.

    Raises:
        UserError: There is no such function.
    """
    task = TASKS[training.task]
    loss, metric = (
        load_callable(path, packages=ALLOWED_TASK_PACKAGES, where=f"training.{name}") if path else None
        for name, path in (("loss", training.loss), ("metric", training.metric))
    )
    return Task(
        loss_sum=guarded(loss, "the loss", where="training.loss") if loss else task.loss_sum,
        metric=guarded(metric, "the metric", where="training.metric") if metric else task.metric,
        metric_name=metric.__name__ if metric else task.metric_name,
        larger_is_better=True if metric else task.larger_is_better,
        finish=float if metric else task.finish,
    )
