"""Structured pruning: whole channels leave the model, so the file shrinks and every runtime gets faster."""

from __future__ import annotations

import copy
import logging

import torch
import torch_pruning
from torch import nn

from include.core.contracts.recipe import PruneStep

_log = logging.getLogger("plimsoll.compression")


def count_parameters(model: nn.Module) -> int:
    """Number of weights."""
    return sum(parameter.numel() for parameter in model.parameters())


def _last_linear(model: nn.Module) -> nn.Module | None:
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return layers[-1] if layers else None


def prune(model: nn.Module, *, step: PruneStep, example: torch.Tensor) -> nn.Module:
    """Copy of a model without its weakest channels, by the group norm of everything that depends on a channel.

    The result is a function of weights and settings alone, so a pruned structure can be rebuilt from the unpruned
    weights and then take the recovered weights. The last linear layer keeps its outputs: they are the classes.

    Args:
        model: Trained model; it is left as it is.
        step: Settings.
        example: Input batch that the dependency graph is traced with, [rows, *input_shape].
    """
    pruned = copy.deepcopy(model).eval()
    head = _last_linear(pruned)
    torch_pruning.pruner.MagnitudePruner(
        pruned,
        example[:2].clone(),
        importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
        pruning_ratio=step.ratio,
        ignored_layers=[] if head is None else [head],
        round_to=step.round_to,
    ).step()
    before, after = count_parameters(model), count_parameters(pruned)
    _log.info("pruned %d of %d parameters", before - after, before)
    if before == after:
        _log.warning("nothing was pruned: layers are not wider than round_to=%d allows", step.round_to)
    return pruned
