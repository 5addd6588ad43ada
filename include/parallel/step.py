"""Forward and backward of one optimizer step: the piece that sizing traces and training executes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from include.parallel.layout import Execution

if TYPE_CHECKING:
    import torch


def forward_backward(
    model: torch.nn.Module, *, inputs: torch.Tensor, labels: torch.Tensor, execution: Execution
) -> torch.Tensor:
    """Accumulate the gradient of the mean cross-entropy over a batch.

    Each micro-batch adds its summed loss divided by the rows of the whole batch, so the gradient is that of the
    batch mean even where the last micro-batch is shorter. Logits are widened to fp32 before the softmax.

    Args:
        model: Classifier that returns logits of shape (rows, classes).
        inputs: Shape (rows, *input_shape), float32.
        labels: Shape (rows,), int64.
        execution: Micro-batch and precision.

    Returns:
        The mean loss, a detached scalar. Nothing is read back to the host, so fake tensors pass through.
    """
    import torch

    rows = inputs.shape[0]
    total = torch.zeros((), device=inputs.device)
    for part in execution.micro_batches(rows):
        with execution.autocast(inputs.device.type):
            logits = model(inputs[part])
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[part], reduction="sum") / rows
        loss.backward()
        total += loss.detach()
    return total
