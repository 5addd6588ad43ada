"""A multi-layer perceptron for tables; images are flattened first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from include.core.errors import UserError


class Perceptron(nn.Sequential):
    """Layers one after the other; knows how to be divided among tensor-parallel workers."""

    def tensor_plan(self) -> dict[str, Any]:
        """Columns and rows in turns; of an odd number of layers, the last one stays whole on every worker."""
        from torch.distributed.tensor.parallel import (  # noqa: PLC0415 - only where the model is divided
            ColwiseParallel,
            RowwiseParallel,
        )

        names = [name for name, layer in self.named_children() if isinstance(layer, nn.Linear)]
        pairs = zip(names[::2], names[1::2], strict=False)
        return {
            name: style
            for pair in pairs
            for name, style in zip(pair, (ColwiseParallel(), RowwiseParallel()), strict=True)
        }


def build(
    input_shape: tuple[int, ...], classes: int, *, hidden: Sequence[int] = (64, 64), dropout: float = 0.1
) -> nn.Module:
    """Build the network.

    Args:
        input_shape: Shape of one encoded sample.
        classes: Number of classes.
        hidden: Units of each hidden layer; empty makes a linear classifier.
        dropout: Share of hidden units dropped in training.

    Returns:
        A module from (rows, *input_shape) to logits of shape (rows, classes); the classifier is its last Linear.

    Raises:
        UserError: An argument is out of range.
    """
    if isinstance(hidden, str) or any(not isinstance(n, int) or n < 1 for n in hidden) or not 0 <= dropout < 1:
        raise UserError(
            "argument out of range",
            where="model.arguments",
            found=f"hidden={hidden}, dropout={dropout}",
            allowed="hidden: list of whole numbers >= 1, 0 <= dropout < 1",
        )
    layers: list[nn.Module] = [nn.Flatten()]
    units = math.prod(input_shape)
    for wider in hidden:
        layers += [nn.Linear(units, wider), nn.ReLU(), nn.Dropout(dropout)]
        units = wider
    return Perceptron(*layers, nn.Linear(units, classes))
