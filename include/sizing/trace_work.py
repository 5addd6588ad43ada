"""FLOPs, bytes and kernel workspace of one operator, from the shapes of its tensors.

Only the profile job imports this module.
"""

from __future__ import annotations

import math
from typing import Any

import torch  # noqa: TID253 - imported by the profile job alone
from torch.utils.flop_counter import (  # noqa: TID253 - imported by the profile job alone
    conv_flop_count,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

_ATEN = torch.ops.aten
_ATTENTION = _ATEN._scaled_dot_product_flash_attention_for_cpu.default  # noqa: SLF001 - the operator's name
_ATTENTION_BACKWARD = _ATEN._scaled_dot_product_flash_attention_for_cpu_backward.default  # noqa: SLF001 - as above
_CONVOLUTION = _ATEN.convolution.default
_CONVOLUTION_BACKWARD = _ATEN.convolution_backward.default
_TRANSPOSED, _MASK = 7, 10
# Of the forward operator; the backward one has one argument more before them.
_STRIDE, _GROUPS = 3, 8
_BLOCKED_FROM_BYTES = 4
# Copies of the weights that the backward kernel takes for a batch of maps smaller than the window: 4.01 to 4.06 were
# read off windows of 3 and 5, strides of 1 and 2, 64 to 512 channels, and one for maps as large as the window.
_SMALL_MAP_COPIES = 4


def size_of(leaf: object) -> int:
    """Bytes of a tensor; 0 of anything else."""
    return leaf.numel() * leaf.element_size() if isinstance(leaf, torch.Tensor) else 0


def flop_of(func: torch._ops.OpOverload, args: Any, kwargs: dict[str, Any], result: Any) -> float:  # noqa: ANN401 - of any operator
    """Floating-point operations of matrix products, convolutions and attention; 0 of all else.

    The backward pass of a convolution takes as many as the forward pass for each gradient that is wanted. (The general
    counter multiplies those of grouped convolutions by their number of channels.)
    """
    if func is _CONVOLUTION_BACKWARD:
        gradient, inputs, weight = args[:3]
        wanted = sum(args[_MASK][:2])
        return float(wanted * conv_flop_count(inputs.shape, weight.shape, gradient.shape, args[_TRANSPOSED]))
    if func is _ATTENTION:
        return float(sdpa_flop_count(*(part.shape for part in args[:3])))
    if func is _ATTENTION_BACKWARD:
        return float(sdpa_backward_flop_count(*(part.shape for part in args[:4])))
    formula = flop_registry.get(func._overloadpacket)  # noqa: SLF001 - the registry's key
    return 0.0 if formula is None else float(formula(*args, **kwargs, out_val=result))


def workspace_bytes(func: torch._ops.OpOverload, args: Any, result: Any) -> float:  # noqa: ANN401 - of any operator
    """Bytes that a convolution's kernel takes while it runs, beside its operands and results.

    Read off the allocator's events of single convolutions on a CPU: in 32 bits the kernels copy their operands into
    blocks, in 16 bits they write out each window as a column; a product of single positions needs neither. Kernels of
    a GPU choose between the same two ways. The rules were checked on plain, densely connected and separable networks.
    """
    if func is _CONVOLUTION:
        inputs, weight, outputs, groups = args[0], args[1], result, args[_GROUPS]
        stride, backward = args[_STRIDE], False
    elif func is _CONVOLUTION_BACKWARD:
        outputs, inputs, weight = args[:3]
        stride, groups, backward = args[_STRIDE + 1], args[_GROUPS + 1], True
    else:
        return 0.0
    window = weight.shape[2:]
    if max(*window, *stride) == 1:
        return 0.0
    taken, given, weights = size_of(inputs), size_of(outputs), size_of(weight)
    if inputs.element_size() >= _BLOCKED_FROM_BYTES:
        if not backward:
            return float(max(taken + weights, given))
        smaller = any(size < width for size, width in zip(inputs.shape[2:], window, strict=True))
        copies = _SMALL_MAP_COPIES if smaller and inputs.shape[0] > 1 else 1
        return float(max(taken + given, copies * weights))
    if groups == inputs.shape[1]:
        return float(taken + weights if backward else given)
    columns = inputs.shape[0] * inputs.shape[1] // groups * math.prod((*window, *outputs.shape[2:]))
    return float(columns * inputs.element_size())
