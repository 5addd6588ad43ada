"""A few steps of one model on a mesh, in a worker of a gloo group: what each layout makes of the same batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed

from include.config.training_section import TrainingSection
from include.core.contracts.plan import Layout
from include.core.json_codec import from_json
from include.parallel.gradients import clip_gradients
from include.parallel.layout import apply_layout
from include.parallel.mesh import take_place
from include.parallel.spread import spread_model
from include.parallel.step import forward_backward
from include.training.data_position import part_of
from include.training.models import mlp, transformer
from include.training.optimizer import build_optimizer
from include.training.tasks.task import TASKS
from include.training.weights import weights_digest

ROWS, LENGTH, CLASSES = 10, 6, 8
# The last batch has fewer rows than there are workers.
BATCHES = (10, 10, 10, 3)


def build(name: str) -> torch.nn.Module:
    torch.manual_seed(1)
    if name == "mlp":
        return mlp.build((LENGTH,), CLASSES, hidden=(16, 12), dropout=0.0)
    return transformer.build((LENGTH,), CLASSES, width=16, depth=2, heads=4, dropout=0.0)


def batch(name: str, number: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(number)
    if name == "mlp":
        return torch.rand(rows, LENGTH, generator=random), torch.randint(0, CLASSES, (rows,), generator=random)
    tokens = torch.randint(0, CLASSES, (rows, LENGTH + 1), generator=random)
    return tokens[:, :-1], tokens[:, 1:].contiguous()


def losses(name: str, layout: Layout, **options: Any) -> tuple[list[float], str]:
    """Mean loss of each batch over all workers, and the digest of the weights afterwards."""
    torch.set_num_threads(1)
    world = distributed.get_world_size() if distributed.is_initialized() else 1
    place = take_place(layout, device_type="cpu", world=world)
    spread = spread_model(build(name), layout, place, **options)
    training = TrainingSection(lr=0.05, weight_decay=0.0, optimizer="sgd")
    optimizer = build_optimizer(spread.model, training, foreach=False)
    execution = apply_layout(layout, batch_size=ROWS)
    task = TASKS["classification" if name == "mlp" else "causal-lm"]
    found = []
    for number, rows in enumerate(BATCHES):
        inputs, targets = batch(name, number, rows)
        mine = part_of(rows, rank=place.data_rank, world=place.data_parallel)
        loss = forward_backward(
            spread.forward,
            inputs=inputs[mine],
            labels=targets[mine],
            execution=execution,
            loss_sum=task.loss_sum,
            rows_global=rows,
            syncing=spread.syncing,
        ).clone()
        if world > 1:
            distributed.all_reduce(loss)
        clip_gradients(spread.model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss) / layout.tensor)
    return found, weights_digest(spread.model)


def many(cases: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> list[tuple[list[float], str]]:
    """`losses` of several layouts in one group: starting one costs more than the steps."""
    return [losses(name, from_json(Layout, layout), **options) for name, layout, options in cases]
