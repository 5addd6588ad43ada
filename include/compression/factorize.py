"""Low-rank factors: two thin layers in place of a wide one, with the rank that the layer's output needs.

The energy of singular values says little about the output, since inputs do not point in all directions alike. So the
rank is the smallest whose output on training rows differs little enough from the layer's own.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable

import torch
from torch import nn

from include.core.contracts.recipe import FactorizeStep

_log = logging.getLogger("plimsoll.compression")


def factorize(model: nn.Module, *, step: FactorizeStep, rows: torch.Tensor) -> nn.Module:
    """Copy of a model whose layers are factors wherever that saves weights.

    The last linear layer keeps its form: it has few outputs, one per class, and nothing to save.

    Args:
        model: Trained model; it is left as it is.
        step: Settings.
        rows: Rows of the training split, [rows, *input_shape].
    """
    thin = copy.deepcopy(model).eval()
    inputs = _inputs_of(thin, _wanted(thin, step), rows)
    for name, seen in inputs.items():
        layer = thin.get_submodule(name)
        factors = _linear(layer, seen, step) if isinstance(layer, nn.Linear) else _conv(layer, seen, step)
        if factors is not None:
            parent, _, own = name.rpartition(".")
            setattr(thin.get_submodule(parent), own, factors)
            _log.info("factorized %s to rank %d", name, factors[0].weight.shape[0])
    return thin


def _wanted(model: nn.Module, step: FactorizeStep) -> list[str]:
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][:-1]
    if step.scope == "linear":
        return linear
    return linear + [
        name for name, module in model.named_modules() if isinstance(module, nn.Conv2d) and module.groups == 1
    ]


def _inputs_of(model: nn.Module, names: list[str], rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each layer is given when the model sees the rows; a layer that is called twice shows its first call."""
    seen: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
        return lambda _, given: seen.__setitem__(name, seen.get(name, given[0].detach()))

    hooks = [model.get_submodule(name).register_forward_pre_hook(keep(name)) for name in names]
    try:
        with torch.no_grad():
            model(rows)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _least_rank(ranks: int, error_of: Callable[[int], float], *, max_error: float) -> int | None:
    """Smallest rank whose error is allowed, found by halving: the error falls as the rank grows."""
    low, high = 1, ranks
    if ranks < 1 or error_of(ranks) > max_error:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if error_of(middle) <= max_error else (middle + 1, high)
    return low


def _linear(layer: nn.Linear, seen: torch.Tensor, step: FactorizeStep) -> nn.Sequential | None:
    rows = seen.reshape(-1, layer.in_features)
    found = _cut(layer.weight.detach(), rows, step)
    if found is None:
        return None
    wide, thin = found
    first = nn.Linear(layer.in_features, len(thin), bias=False)
    second = nn.Linear(len(thin), layer.out_features, bias=layer.bias is not None)
    return _filled(first, second, thin, wide, layer.bias)


def _conv(layer: nn.Module, seen: torch.Tensor, step: FactorizeStep) -> nn.Sequential | None:
    """A convolution to few channels, then one of 1 x 1 to all: the channels of a kernel are the rows of its matrix."""
    assert isinstance(layer, nn.Conv2d)
    matrix = layer.weight.detach().flatten(1)
    patches = nn.functional.unfold(
        _padded(layer, seen), layer.kernel_size, dilation=layer.dilation, stride=layer.stride
    )
    found = _cut(matrix, patches.transpose(1, 2).reshape(-1, matrix.shape[1]), step)
    if found is None:
        return None
    wide, thin = found
    first = copy.deepcopy(layer)
    first.out_channels, first.bias = len(thin), None
    second = nn.Conv2d(len(thin), layer.out_channels, 1, bias=layer.bias is not None)
    shaped = thin.reshape(len(thin), *layer.weight.shape[1:])
    return _filled(first, second, shaped, wide[:, :, None, None], layer.bias)


def _padded(layer: nn.Conv2d, seen: torch.Tensor) -> torch.Tensor:
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return nn.functional.pad(seen, layer._reversed_padding_repeated_twice, mode=mode)  # noqa: SLF001 - also for 'same'


def _cut(matrix: torch.Tensor, rows: torch.Tensor, step: FactorizeStep) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Factors of a matrix [outputs, inputs] at the rank that its output needs, None where they would save nothing.

    Returns:
        ``wide`` [outputs, rank] and ``thin`` [rank, inputs], whose product stands for the matrix.
    """
    outputs, inputs = matrix.shape
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    whole = rows @ matrix.T
    norm = whole.norm().clamp_min(torch.finfo(whole.dtype).tiny)
    # What each singular direction adds to the output, so that an error costs one product and not one per rank.
    inner = rows @ v.T * s

    def error_of(rank: int) -> float:
        return float((inner[:, rank:] @ u[:, rank:].T).norm() / norm)

    # Above this rank two factors have more weights than the matrix.
    largest = (outputs * inputs - 1) // (outputs + inputs)
    rank = _least_rank(min(largest, len(s)), error_of, max_error=step.max_error)
    if rank is None:
        return None
    root = s[:rank].sqrt()
    return u[:, :rank] * root, root[:, None] * v[:rank]


def _filled(
    first: nn.Module, second: nn.Module, thin: torch.Tensor, wide: torch.Tensor, bias: torch.Tensor | None
) -> nn.Sequential:
    first.weight = nn.Parameter(thin.contiguous())
    second.weight = nn.Parameter(wide.contiguous())
    if bias is not None:
        second.bias = nn.Parameter(bias.detach().clone())
    return nn.Sequential(first, second)
