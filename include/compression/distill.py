"""Recovery after pruning: learn from the labels and from the uncompressed model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from include.core.contracts.recipe import DistillStep

_log = logging.getLogger("plimsoll.compression")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRows:
    """Training split as tensors.

    Attributes:
        x: Inputs, float32 [rows, *input_shape].
        y: Class indices, int64 [rows].
    """

    x: torch.Tensor
    y: torch.Tensor


@contextmanager
def exact_arithmetic(seed: int) -> Iterator[None]:
    """One thread, deterministic kernels and a seeded generator; the settings of before come back afterwards."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)  # noqa: FBT003 - torch's own signature
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


def distillation_loss(
    student: torch.Tensor, teacher: torch.Tensor, labels: torch.Tensor, *, step: DistillStep
) -> torch.Tensor:
    """``alpha * T^2 * KL(teacher || student at temperature T) + (1 - alpha) * cross-entropy``.

    The factor T^2 keeps the gradients of the soft part at the same size for every temperature. Source: Hinton, Vinyals
    and Dean, "Distilling the Knowledge in a Neural Network", arXiv 1503.02531.

    Args:
        student: Logits [rows, classes].
        teacher: Logits [rows, classes].
        labels: Class indices [rows].
        step: Temperature and alpha.
    """
    soft = functional.kl_div(
        functional.log_softmax(student / step.temperature, dim=1),
        functional.log_softmax(teacher / step.temperature, dim=1),
        reduction="batchmean",
        log_target=True,
    )
    hard = functional.cross_entropy(student, labels)
    return step.alpha * step.temperature**2 * soft + (1 - step.alpha) * hard


def _batches(rows: int, batch_size: int) -> tuple[torch.Tensor, ...]:
    """Row indices of one epoch in a new order. A last batch of one row is left out: batch statistics need two."""
    return tuple(part for part in torch.randperm(rows).split(batch_size) if len(part) > 1)


def distill(
    student: nn.Module,
    *,
    teacher: nn.Module,
    rows: TrainingRows,
    step: DistillStep,
    seed: int,
    batch_size: int,
    on_epoch: Callable[[int, float], None],
) -> nn.Module:
    """Train the student in place; the same arguments give the same weights.

    Args:
        student: Pruned model.
        teacher: Uncompressed model.
        rows: Training split, at least two rows.
        step: Settings; AdamW with torch's default weight decay, cosine schedule down to zero.
        seed: Seed of row order and dropout.
        batch_size: Rows per optimizer step.
        on_epoch: Told the number of finished epochs and the mean loss of the last one.

    Returns:
        The student, in evaluation mode.
    """
    with exact_arithmetic(seed):
        with torch.no_grad():
            teacher.eval()
            # The teacher does not change: its logits are computed once, not once per epoch.
            targets = torch.cat([teacher(part) for part in rows.x.split(batch_size)])
        optimizer = torch.optim.AdamW(student.parameters(), lr=step.lr)
        steps_per_epoch = len(_batches(len(rows.x), batch_size))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, step.epochs * steps_per_epoch)
        student.train()
        for epoch in range(1, step.epochs + 1):
            losses = []
            for part in _batches(len(rows.x), batch_size):
                loss = distillation_loss(student(rows.x[part]), targets[part], rows.y[part], step=step)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
            on_epoch(epoch, sum(losses) / len(losses))
    return student.eval()
