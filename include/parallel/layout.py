"""From a planned layout to what one worker executes: precision and micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from include.core.contracts.plan import Layout
from include.core.errors import UserError

PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How one worker executes an optimizer step.

    Attributes:
        micro_batch: Samples per forward pass.
        precision: ``fp32``, or ``bf16`` for autocast over fp32 weights.
    """

    micro_batch: int
    precision: str

    def micro_batches(self, rows: int) -> Iterator[slice]:
        """Slices that cut a batch into forward passes; the last one may be shorter."""
        for start in range(0, rows, self.micro_batch):
            yield slice(start, min(start + self.micro_batch, rows))

    def autocast(self, device_type: str) -> AbstractContextManager[Any]:
        """Context of the forward pass. bfloat16 has the range of fp32, so no loss scaling is needed."""
        if self.precision == "fp32":
            return nullcontext()
        import torch

        return torch.autocast(device_type, dtype=torch.bfloat16)


def single_worker_layout(*, batch_size: int, precision: str) -> Layout:
    """The layout of a training that nobody planned: one worker, the whole batch in one forward pass."""
    return Layout(precision=precision, micro_batch=batch_size)


def apply_layout(layout: Layout, *, batch_size: int) -> Execution:
    """Check that this release can run the layout and say how.

    Args:
        layout: The planned layout.
        batch_size: Samples per optimizer step.

    Raises:
        UserError: The layout needs more than one worker, a memory remedy that this release lacks, an unknown
            precision, or does not cover the batch.
    """
    _refuse_unsupported(layout)
    needed = math.ceil(batch_size / layout.micro_batch) if layout.micro_batch > 0 else 0
    if needed < 1 or layout.accumulation != needed:
        raise UserError(
            "the layout does not cover the batch",
            where="layout.micro_batch, layout.accumulation",
            found=f"{layout.micro_batch} x {layout.accumulation} for a batch of {batch_size}",
            allowed="accumulation = ceil(batch_size / micro_batch)",
        )
    return Execution(micro_batch=min(layout.micro_batch, batch_size), precision=layout.precision)


def _refuse_unsupported(layout: Layout) -> None:
    for name in ("replicate", "shard", "tensor"):
        if getattr(layout, name) != 1:
            raise UserError(
                "this release trains on one worker",
                where=f"layout.{name}",
                found=str(getattr(layout, name)),
                allowed="1",
                todo="choose an offer with one accelerator, or a smaller micro-batch",
            )
    for name in ("activation_checkpointing", "offload"):
        if getattr(layout, name):
            raise UserError(
                f"this release has no {name.replace('_', ' ')}",
                where=f"layout.{name}",
                found="true",
                allowed="false",
                todo="use bf16 or a smaller micro-batch",
            )
    if layout.precision not in PRECISIONS:
        raise UserError(
            "unknown precision", where="layout.precision", found=layout.precision, allowed=", ".join(PRECISIONS)
        )
