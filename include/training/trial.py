"""Model, loss and metric of a user on a few rows, before anything is paid for."""

from __future__ import annotations

import math

import torch
from torch import nn

from include.config.workload import MODEL_PRESETS, Workload
from include.core.errors import UserError
from include.training.tasks.data import CLASSIFYING, TaskData
from include.training.tasks.task import Task
from include.training.user_code import user_code

_ROWS = 2


def needs_trial(workload: Workload) -> bool:
    """Whether anything in a training is not ours: the model, the loss, the metric or the rows."""
    training = workload.training
    own = (training.data, training.loss, training.metric)
    return any(own) or workload.model.factory not in MODEL_PRESETS.values()


def try_task(model: nn.Module, task: Task, data: TaskData, *, workload: Workload, device: torch.device) -> None:
    """Run each part once on the first rows. Leaves the model and all random generators as they were.

    Args:
        model: The whole model, on its device.
        task: Loss and metric.
        data: Training rows, and the number of classes.
        workload: For the names of the parts.
        device: Where the model is.

    Raises:
        UserError: A part fails, or gives something else than it should.
    """
    source = data.train
    batch = next(source.batches(offset=0, batch_size=min(_ROWS, source.rows), rank=0, world=1))
    inputs, targets = batch.inputs.to(device), batch.targets.to(device)
    training = model.training
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        model.eval()
        try:
            outputs = _outputs(model, inputs)
            if workload.training.task in CLASSIFYING and workload.training.loss is None:
                _check_logits(outputs, classes=data.classes)
            _try_loss(task, outputs, targets, workload)
            with torch.no_grad():
                _try_metric(task, outputs, targets, workload)
        finally:
            model.train(training)


def _outputs(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    shape = tuple(inputs.shape[1:])
    with user_code(f"the model, given rows of shape {shape} and type {inputs.dtype},", where="model.factory"):
        outputs = model(inputs)
    if not isinstance(outputs, torch.Tensor):
        raise UserError(
            "the model's output is no tensor",
            where="model.factory",
            found=type(outputs).__name__,
            allowed="one tensor with one row per row of the inputs",
        )
    return outputs


def _check_logits(outputs: torch.Tensor, *, classes: int) -> None:
    if outputs.dim() != 2 or outputs.shape[1] != classes:  # noqa: PLR2004 - rows and classes
        raise UserError(
            "the model's output is not one logit per class",
            where="model.factory",
            found=_told(outputs),
            allowed=f"shape (rows, {classes})",
        )


def _try_loss(task: Task, outputs: torch.Tensor, targets: torch.Tensor, workload: Workload) -> None:
    where = "training.loss" if workload.training.loss else "training.task"
    with user_code(f"the loss, of {_told(outputs)} and {_told(targets)},", where=where):
        loss = task.loss_sum(outputs, targets)
    right = isinstance(loss, torch.Tensor) and loss.dim() == 0 and loss.is_floating_point()
    if right and loss.requires_grad:
        return
    raise UserError(
        "the loss is not one number that can be differentiated",
        where=where,
        found=f"{_told(loss)}, without a gradient" if right else _told(loss),
        allowed="the loss summed over the rows: a floating-point tensor without dimensions that depends on the outputs",
    )


def _try_metric(task: Task, outputs: torch.Tensor, targets: torch.Tensor, workload: Workload) -> None:
    where = "training.metric" if workload.training.metric else "training.task"
    with user_code(f"the metric, of {_told(outputs)} and {_told(targets)},", where=where):
        answer = task.metric(outputs, targets)
    try:
        total, count = answer
        right = math.isfinite(count) and count >= 1 and not math.isnan(float(total))
    except (TypeError, ValueError):
        right = False
    if not right:
        raise UserError(
            "the metric is no pair of a sum and a count",
            where=where,
            found=repr(answer)[:200],
            allowed="(sum over the rows, number of things measured, at least 1)",
        )


def _told(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
