"""The metric of a task over a whole split, shared out among the workers."""

from __future__ import annotations

import math

import torch
from torch import distributed

from include.parallel.spread import Spread
from include.training.batches import BatchSource
from include.training.tasks.task import Task

_BATCH = 1024


def measure(spread: Spread, task: Task, source: BatchSource, *, device: torch.device) -> float | None:
    """The mean of the metric over all rows, the same on every worker. Draws from no random generator.

    Returns:
        The figure, None where it is not a finite one: what was trained is not lost to a metric.
    """
    spread.model.eval()
    place, total, count = spread.place, torch.zeros((), dtype=torch.float64, device=device), 0
    batches = source.batches(offset=0, batch_size=_BATCH, rank=place.data_rank, world=place.data_parallel)
    with torch.no_grad():
        for _ in range(source.steps_per_epoch(_BATCH)):
            batch = next(batches)
            inputs, targets = batch.inputs.to(device), batch.targets.to(device)
            if len(targets) == 0:
                # A divided model takes all its workers to run, also those for which no row is left.
                spread.model(inputs.new_zeros((1, *inputs.shape[1:])))
                continue
            found, things = task.metric(spread.model(inputs), targets)
            total += found
            count += things
    if place.world > 1:
        sums = torch.tensor([float(total), float(count)], dtype=torch.float64, device=device)
        distributed.all_reduce(sums)
        return _finished(task, float(sums[0]), float(sums[1]))
    return _finished(task, float(total), count)


def _finished(task: Task, total: float, count: float) -> float | None:
    try:
        figure = task.finish(total / count)
    except (ArithmeticError, ValueError):
        return None
    return figure if math.isfinite(figure) else None
