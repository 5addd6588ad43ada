"""Running out of memory: recognised by type, and told with what was predicted and what was used."""

from __future__ import annotations

import resource

import torch

from include.core.errors import UserError


class TrainingOutOfMemoryError(UserError):
    """A step did not fit. Another layout may."""


def raise_if_out_of_memory(error: MemoryError | RuntimeError, *, where: str, step: str) -> None:
    """Tell every kind of lack of memory as one error; any other error is left alone.

    Args:
        error: What a step has raised.
        where: Which step of how many.
        step: How the step ran, for people.

    Raises:
        TrainingOutOfMemoryError: The step ran out of memory.
    """
    # The CPU allocator has no exception class of its own.
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error):
        raise _out_of_memory(error, where=where, step=step) from error


def _out_of_memory(error: BaseException, *, where: str, step: str) -> TrainingOutOfMemoryError:
    return TrainingOutOfMemoryError(
        "out of memory",
        where=where,
        found=f"{step}, peak {peak_bytes() / 1e9:.2f} GB measured: {error}",
        todo="use a smaller micro-batch (same batch, more accumulation), bf16, or an offer with more memory",
    )


def peak_bytes() -> int:
    """Most memory that this worker has used: of the device where there is one, else resident memory of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
