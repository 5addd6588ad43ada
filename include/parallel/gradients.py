"""Gradients of several workers: their sum, its precision, its norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def sum_in(dtype: torch.dtype | None) -> Any:  # noqa: ANN401 - a hook of DistributedDataParallel
    """Communication hook that sums gradients instead of averaging them, each share being of the batch mean already.

    Args:
        dtype: Type of what travels, None for the gradients' own.
    """
    from torch import distributed

    def hook(_: object, bucket: Any) -> Any:  # noqa: ANN401 - DistributedDataParallel's bucket and future
        own = bucket.buffer()
        sent = own if dtype is None or own.dtype == dtype else own.to(dtype)
        future = distributed.all_reduce(sent, async_op=True).get_future()

        def widen(done: Any) -> torch.Tensor:  # noqa: ANN401 - a future
            found = done.value()[0]
            if found is not own:
                own.copy_(found)
            return own

        return future.then(widen)

    # torch compares annotations with its classes, and these here are text.
    hook.__annotations__.clear()
    return hook


def clip_gradients(parameters: Iterable[torch.nn.Parameter], largest: float) -> torch.Tensor:
    """Scale all gradients so that their common norm is at most ``largest``.

    Parameters may be on different meshes, which torch's own function does not take.

    Returns:
        The norm before.
    """
    import torch
    from torch.distributed.tensor import DTensor

    groups: dict[object, list[torch.nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            key = parameter.grad.device_mesh if isinstance(parameter.grad, DTensor) else None
            groups.setdefault(key, []).append(parameter)
    norms = []
    for group in groups.values():
        norm = torch.nn.utils.get_total_norm([p.grad for p in group if p.grad is not None])
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    total = norms[0] if len(norms) == 1 else torch.stack(norms).norm()
    for group in groups.values():
        torch.nn.utils.clip_grads_with_norm_(group, largest, total)
    return total
