"""Forward and backward of one optimizer step: the piece that sizing traces and training executes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from include.parallel.layout import Execution

if TYPE_CHECKING:
    import torch

LossSum = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
_NOTHING = nullcontext()


def cross_entropy_sum(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Summed cross-entropy of logits (rows, classes), widened to fp32 before the softmax, and labels (rows,)."""
    import torch

    return torch.nn.functional.cross_entropy(outputs.float(), targets, reduction="sum")


def forward_backward(
    model: Callable[[torch.Tensor], torch.Tensor],
    *,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    execution: Execution,
    loss_sum: LossSum = cross_entropy_sum,
    rows_global: int | None = None,
    syncing: Callable[[bool], AbstractContextManager[Any]] | None = None,
    scale: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Accumulate this worker's share of the gradient of a batch's mean loss.

    Each micro-batch adds its summed loss divided by the rows of the whole batch, so the gradients, summed over the
    workers, are those of the batch mean even where the last micro-batch is shorter or a worker has no row at all.

    Args:
        model: From inputs to outputs.
        inputs: This worker's rows, shape (rows, *input_shape).
        labels: Their targets, shape (rows, ...).
        execution: Micro-batch and precision.
        loss_sum: The summed loss of outputs and targets.
        rows_global: Rows of the batch over all workers; None where there is one worker.
        syncing: Context of each pass: told whether it is the last, after which gradients are exchanged.
        scale: What multiplies the loss before the backward pass (fp16).

    Returns:
        This worker's share of the mean loss, a detached scalar; the shares of all workers add up to the mean. Nothing
        is read back to the host, so fake tensors pass through.
    """
    rows = len(inputs)
    batch = rows if rows_global is None else rows_global
    if syncing is None and scale is None and rows == batch <= execution.micro_batch and execution.precision == "fp32":
        # Most small trainings, whose steps are so short that each call beside the model's own shows.
        total = loss_sum(model(inputs), labels)
        weight = total.new_full((), 1.0 / batch)
        total.backward(gradient=weight)
        return total.detach() * weight
    passes, size = execution.passes(batch), execution.micro_batch
    total = None
    for number in range(passes):
        part = slice(number * size, min((number + 1) * size, rows))
        with _NOTHING if syncing is None else syncing(number == passes - 1):
            loss = _sum_of(model, inputs=inputs, labels=labels, part=part, execution=execution, loss_sum=loss_sum)
            # The mean is taken in the gradient that starts the backward pass: one operator less in the graph.
            weight = loss.new_full((), 1.0 / batch)
            (loss if scale is None else scale(loss)).backward(gradient=weight)
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    return total * weight


def _sum_of(
    model: Callable[[torch.Tensor], torch.Tensor],
    *,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    part: slice,
    execution: Execution,
    loss_sum: LossSum,
) -> torch.Tensor:
    """Summed loss of one micro-batch; of none, a loss of zero that still takes part in every exchange."""
    if part.start == 0 and part.stop == inputs.shape[0] > 0:
        mine, targets = inputs, labels
    else:
        mine, targets = inputs[part], labels[part]
    with execution.autocast(inputs.device.type):
        if part.stop <= part.start:
            return model(inputs.new_zeros((1, *inputs.shape[1:]))).float().sum() * 0.0
        outputs = model(mine)
    return loss_sum(outputs, targets)
