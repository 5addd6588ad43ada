"""From a planned layout to what one worker executes: precision, micro-batches, what is recomputed."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from include.core.contracts.plan import Layout, Recompute
from include.core.errors import UserError

PRECISIONS = ("fp32", "bf16", "fp16")
_NOTHING = nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How one worker executes an optimizer step.

    Attributes:
        micro_batch: Samples per forward pass.
        precision: ``fp32``, or ``bf16`` or ``fp16`` for autocast over fp32 weights.
        data_parallel: Workers among which a batch is divided.
        recompute: What is recomputed in the backward pass.
    """

    micro_batch: int
    precision: str
    data_parallel: int = 1
    recompute: Recompute = "off"

    def passes(self, rows: int) -> int:
        """Forward passes for a global batch of so many rows: the same on every worker, since each takes part in all."""
        return max(1, math.ceil(math.ceil(rows / self.data_parallel) / self.micro_batch))

    def autocast(self, device_type: str) -> AbstractContextManager[Any]:
        """Context of the forward pass. bfloat16 has the range of fp32, fp16 has not: its loss is scaled."""
        if self.precision == "fp32":
            return _NOTHING
        import torch

        return torch.autocast(device_type, dtype=torch.bfloat16 if self.precision == "bf16" else torch.float16)


def single_worker_layout(*, batch_size: int, precision: str) -> Layout:
    """The layout of a training that nobody planned: one worker, the whole batch in one forward pass."""
    return Layout(precision=precision, micro_batch=batch_size)


def apply_layout(layout: Layout, *, batch_size: int) -> Execution:
    """Check that the layout can be run and say how.

    Args:
        layout: The planned layout.
        batch_size: Samples per optimizer step, over all workers.

    Raises:
        UserError: The layout has pipeline stages, a mesh dimension below 1, an unknown precision or remedy, fp16 on
            divided weights, or does not cover the batch.
    """
    _refuse_unsupported(layout)
    needed = (
        math.ceil(math.ceil(batch_size / layout.data_parallel) / layout.micro_batch) if layout.micro_batch > 0 else 0
    )
    if needed < 1 or layout.accumulation != needed:
        raise UserError(
            "the layout does not cover the batch",
            where="layout.micro_batch, layout.accumulation",
            found=f"{layout.micro_batch} x {layout.accumulation} for a batch of {batch_size} on {layout.data_parallel}",
            allowed="accumulation = ceil(ceil(batch_size / (replicate * shard)) / micro_batch)",
        )
    return Execution(
        micro_batch=min(layout.micro_batch, batch_size),
        precision=layout.precision,
        data_parallel=layout.data_parallel,
        recompute=layout.activation_checkpointing,
    )


def _refuse_unsupported(layout: Layout) -> None:
    _refuse_mesh(layout)
    for name, allowed in (("precision", PRECISIONS), ("activation_checkpointing", ("off", "block", "selective"))):
        if getattr(layout, name) not in allowed:
            raise UserError(
                f"unknown {name.replace('_', ' ')}",
                where=f"layout.{name}",
                found=str(getattr(layout, name)),
                allowed=", ".join(allowed),
            )
    if layout.precision == "fp16" and (layout.shard > 1 or layout.tensor > 1 or layout.offload):
        raise UserError(
            "fp16 trains on whole weights alone",
            where="layout.precision",
            found=f"fp16 on shard {layout.shard}, tensor {layout.tensor}, offload {layout.offload}",
            allowed="bf16, or fp16 with shard 1, tensor 1 and no offload",
            todo="use bf16, which needs no scaled loss",
        )


def _refuse_mesh(layout: Layout) -> None:
    if layout.pipeline != 1:
        raise UserError(
            "there is no pipeline parallelism",
            where="layout.pipeline",
            found=str(layout.pipeline),
            allowed="1",
            todo="divide the model by shard or tensor instead, or recompute activations",
        )
    for name in ("replicate", "shard", "tensor"):
        if getattr(layout, name) < 1:
            raise UserError(
                "a mesh has at least one worker in each dimension",
                where=f"layout.{name}",
                found=str(getattr(layout, name)),
                allowed="a whole number from 1",
            )
