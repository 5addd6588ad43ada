"""Activation checkpointing: what a block computes in the forward pass is computed again in the backward pass."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from include.core.contracts.plan import Recompute

if TYPE_CHECKING:
    from torch import nn


def blocks_of(model: nn.Module) -> Iterator[nn.Module]:
    """The parts that a model is made of, one after the other.

    A model may declare them by a method ``blocks()``. Else they are the entries of its first ModuleList, or the
    children of it that have parameters.
    """
    from torch import nn

    declared = getattr(model, "blocks", None)
    if callable(declared) and not isinstance(declared, nn.Module):
        yield from declared()
        return
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    if lists:
        yield from lists[0]
        return
    yield from (child for child in model.children() if any(True for _ in child.parameters()))


def recompute_activations(model: nn.Module, how: Recompute) -> None:
    """Make the blocks of a model forget their activations; names of parameters stay as they are."""
    if how == "off":
        return
    from torch.utils.checkpoint import checkpoint

    options: dict[str, Any] = {"use_reentrant": False}
    if how == "selective":
        options["context_fn"] = _keeping_products
    for block in blocks_of(model):
        block.forward = functools.partial(checkpoint, block.forward, **options)


def _keeping_products() -> Any:  # noqa: ANN401 - a pair of contexts of a library that is imported late
    """Contexts that keep the results of matrix products and convolutions: dear to compute, and few."""
    import torch
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    aten = torch.ops.aten
    kept = [aten.mm.default, aten.addmm.default, aten.bmm.default, aten.convolution.default]
    return create_selective_checkpoint_contexts(kept)
