"""A small decoder of tokens, in the order of GPT-2: for the next token of each position, or for one class per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from include.core.errors import UserError

# The argument of `build` that is the number of equal blocks: the profile traces two shallow models in place of a deep
# one, and each further block adds what their difference shows.
REPEATED_BY = "depth"


class Attention(nn.Module):
    """Causal self-attention. Heads are independent, so each tensor-parallel rank holds some of them.

    Args:
        width: Units of a token.
        heads: Number of heads; divides the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._head = width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From (rows, length, width) to the same shape."""
        rows, length, _ = tokens.shape
        # As many heads as this rank holds, whatever the whole number is.
        query, key, value = (
            part(tokens).view(rows, length, -1, self._head).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        found: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(rows, length, -1))
        return found


class Block(nn.Module):
    """Attention and a perceptron, each beside what goes past it.

    Args:
        width: Units of a token.
        heads: Number of heads.
        dropout: Share of units dropped in training.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.before_attention, self.before_units = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From (rows, length, width) to the same shape."""
        tokens = tokens + self.dropout(self.attention(self.before_attention(tokens)))
        units = self.down(functional.gelu(self.up(self.before_units(tokens))))
        return tokens + self.dropout(units)


class Transformer(nn.Module):
    """The whole network.

    Args:
        length: Most tokens of a row.
        vocabulary: Number of tokens.
        outputs: Logits per position, or per row.
        width: Units of a token.
        depth: Number of blocks.
        heads: Number of heads.
        dropout: Share of units dropped in training.
        per_row: Whether there is one answer per row: that of the mean over its tokens.
    """

    def __init__(
        self,
        *,
        length: int,
        vocabulary: int,
        outputs: int,
        width: int,
        depth: int,
        heads: int,
        dropout: float,
        per_row: bool,
    ) -> None:
        super().__init__()
        self._per_row = per_row
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(length, width))
        self.layers = nn.ModuleList(Block(width, heads, dropout) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From token numbers (rows, length) to logits (rows, length, outputs), or (rows, outputs)."""
        units = self.token(tokens.long()) + self.position[: tokens.shape[1]]
        for layer in self.layers:
            units = layer(units)
        units = self.norm(units)
        found: torch.Tensor = self.head(units.mean(dim=1) if self._per_row else units)
        return found

    def blocks(self) -> Iterator[nn.Module]:
        """What is sharded and recomputed as one."""
        yield from self.layers

    def tensor_plan(self) -> dict[str, Any]:
        """Columns of the first product and rows of the second one, of attention and perceptron alike."""
        from torch.distributed.tensor.parallel import (  # noqa: PLC0415 - only where the model is divided
            ColwiseParallel,
            RowwiseParallel,
        )

        plan: dict[str, Any] = {}
        for number in range(len(self.layers)):
            block = f"layers.{number}"
            plan |= {f"{block}.attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
            plan |= {f"{block}.attention.out": RowwiseParallel(), f"{block}.up": ColwiseParallel()}
            plan[f"{block}.down"] = RowwiseParallel()
        return plan


def build(
    input_shape: tuple[int, ...],
    classes: int,
    *,
    vocabulary: int | None = None,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    dropout: float = 0.1,
) -> nn.Module:
    """Build the network.

    Args:
        input_shape: Tokens of a row, as (length,).
        classes: Classes of a row, or the vocabulary of a language model.
        vocabulary: Number of tokens, for one class per row; None for a language model.
        width: Units of a token.
        depth: Number of blocks.
        heads: Number of heads.
        dropout: Share of units dropped in training.

    Returns:
        A module from token numbers (rows, length) to logits: (rows, length, classes) of a language model, else
        (rows, classes).

    Raises:
        UserError: The rows are no rows of tokens, or an argument is out of range.
    """
    if len(input_shape) != 1:
        raise UserError(
            "the transformer needs rows of tokens",
            where="model.factory",
            found=f"input shape {tuple(input_shape)}",
            allowed="(length,)",
        )
    if min(width, depth, heads, vocabulary or 1) < 1 or width % heads or not 0 <= dropout < 1:
        raise UserError(
            "argument out of range",
            where="model.arguments",
            found=f"vocabulary={vocabulary}, width={width}, depth={depth}, heads={heads}, dropout={dropout}",
            allowed="whole numbers >= 1, width a multiple of heads, 0 <= dropout < 1",
        )
    return Transformer(
        length=input_shape[0],
        vocabulary=vocabulary or classes,
        outputs=classes,
        width=width,
        depth=depth,
        heads=heads,
        dropout=dropout,
        per_row=vocabulary is not None,
    )
