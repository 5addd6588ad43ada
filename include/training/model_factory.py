"""From the ``model`` section of a workload file to a module."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from torch import nn

from include.config.workload import ALLOWED_FACTORY_PACKAGES, ModelSection
from include.core.errors import UserError


def build_model(section: ModelSection, *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build the model that a workload names, with random weights.

    Args:
        section: Import path of the factory, already checked against the allowed packages, and its arguments.
        input_shape: Shape of one encoded sample, without the batch dimension.
        classes: Number of classes.

    Raises:
        UserError: There is no such factory, an argument is unknown or of the wrong kind, or the factory refuses it.
    """
    factory = _factory(section.factory)
    _check_arguments(section, factory)
    try:
        model = factory(input_shape, classes, **section.arguments)
    except (TypeError, ValueError) as error:
        raise UserError(
            "the model factory refuses its arguments",
            where="model.arguments",
            found=f"{section.arguments}: {error}",
            allowed=_describe(factory),
        ) from error
    if not isinstance(model, nn.Module):
        raise UserError(
            "the model factory made no torch module",
            where="model.factory",
            found=type(model).__name__,
            allowed="torch.nn.Module",
        )
    return model


def _factory(path: str) -> Any:  # noqa: ANN401 - whatever stands at the import path
    module_name, _, function_name = path.partition(":")
    allowed = any(module_name == p or module_name.startswith(f"{p}.") for p in ALLOWED_FACTORY_PACKAGES)
    try:
        # Checked here too: this is the line that imports.
        factory = getattr(importlib.import_module(module_name), function_name, None) if allowed else None
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        factory = None
    if not callable(factory):
        raise UserError(
            "no such model factory",
            where="model.factory",
            found=path,
            allowed=f"'<module>:<function>' in {', '.join(ALLOWED_FACTORY_PACKAGES)}",
        )
    return factory


def _check_arguments(section: ModelSection, factory: Any) -> None:  # noqa: ANN401 - a callable
    try:
        inspect.signature(factory).bind((1,), 2, **section.arguments)
    except TypeError as error:
        raise UserError(
            "wrong arguments for the model factory",
            where="model.arguments",
            found=str(error),
            allowed=_describe(factory),
        ) from error


def _describe(factory: Any) -> str:  # noqa: ANN401 - a callable
    parameters = list(inspect.signature(factory).parameters.values())[2:]
    return ", ".join(f"{p.name} (default {p.default})" for p in parameters) or "no arguments"
