"""What tensor-parallel workers exchange and divide, for models that declare a plan for it.

Only the profile job imports this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # noqa: TID253 - imported by the profile job alone
from torch import nn  # noqa: TID253 - imported by the profile job alone

from include.sizing.trace import StepShape, fake_model, faking
from include.sizing.trace_work import size_of

_ROWS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorParallel:
    """What dividing the products of a model takes.

    Attributes:
        bytes_per_sample: Bytes in fp32 that the workers reduce for one sample, forward and backward.
        divided_bytes: Bytes of the parameters that they divide among them.
    """

    bytes_per_sample: float
    divided_bytes: float


def trace_tensor_parallel(shape: StepShape) -> TensorParallel | None:
    """Follow one forward pass of the model; None where it declares no plan.

    A product divided by rows reduces its results in the forward pass, one divided by columns the gradient of its input
    in the backward pass.
    """
    with faking():
        model = fake_model(shape.build)
        declared = getattr(model, "tensor_plan", None)
        if not callable(declared):
            return None
        seen: list[int] = []
        divided = 0
        for name, style in declared().items():
            module = model.get_submodule(name)
            divided += sum(map(size_of, module.parameters()))
            module.register_forward_hook(_counting(seen, by_rows=type(style).__name__ == "RowwiseParallel"))
        with torch.no_grad():
            model(shape.samples(_ROWS)[0])
    return TensorParallel(bytes_per_sample=sum(seen) / _ROWS, divided_bytes=float(divided))


def _counting(seen: list[int], *, by_rows: bool) -> Callable[[nn.Module, Any, Any], None]:
    def hook(_: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:  # noqa: ANN401 - torch's hook
        seen.append(size_of(outputs if by_rows else inputs[0]))

    return hook
