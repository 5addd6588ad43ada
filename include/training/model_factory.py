"""From the ``model`` section of a workload file to a module."""

from __future__ import annotations

import fnmatch
import inspect
import reprlib
from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from include.config.workload import ALLOWED_FACTORY_PACKAGES, ModelSection
from include.core.errors import UserError
from include.training.imports import load_callable
from include.training.user_code import user_code


def build_model(section: ModelSection, *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build the model that a workload names, with random weights.

    Args:
        section: Import path of the factory, already checked against the allowed packages, and its arguments.
        input_shape: Shape of one encoded sample, without the batch dimension.
        classes: Number of classes.

    Raises:
        UserError: There is no such factory, an argument is unknown or of the wrong kind, the factory refuses it or
            fails, or what it made is no module of known sizes.
    """
    factory = load_callable(
        section.factory, packages=ALLOWED_FACTORY_PACKAGES, where="model.factory", what="model factory"
    )
    _check_arguments(section, factory)
    with user_code("the model factory", where="model.factory"):
        try:
            model = factory(input_shape, classes, **section.arguments)
        except (TypeError, ValueError) as error:
            text = " ".join(str(error).split())
            if not section.arguments:
                raise UserError(
                    f"the model factory raised {type(error).__name__}",
                    where="model.factory",
                    found=f"{section.factory}: {text}",
                    todo="mend the factory, or give it other model.arguments",
                ) from error
            raise UserError(
                "the model factory refuses its arguments",
                where="model.arguments",
                found=f"{section.arguments}: {text}",
                allowed=_describe(factory),
            ) from error
    if not isinstance(model, nn.Module):
        raise UserError(
            "the model factory made no torch module",
            where="model.factory",
            found=type(model).__name__,
            allowed="torch.nn.Module",
        )
    unfinished = [name for name, value in model.named_parameters() if isinstance(value, UninitializedParameter)]
    if unfinished:
        raise UserError(
            "a parameter of the model has no shape yet",
            where="model.factory",
            found=", ".join(unfinished[:3]),
            allowed="layers that are told their sizes; the factory is given the shape of a row",
        )
    return model


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


def freeze(model: nn.Module, globs: tuple[str, ...]) -> None:
    """Fix the parameters whose names match one of the globs.

    Raises:
        UserError: A glob matches nothing, or nothing is left to train.
    """
    names = [name for name, _ in model.named_parameters()]
    for glob in globs:
        if not fnmatch.filter(names, glob):
            raise UserError(
                "no parameter has such a name", where="training.freeze", found=glob, allowed=reprlib.repr(names)
            )
    for name, parameter in model.named_parameters():
        if any(fnmatch.fnmatchcase(name, glob) for glob in globs):
            parameter.requires_grad_(False)  # noqa: FBT003 - torch takes it by position
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError("nothing is left to train", where="training.freeze", found=", ".join(globs) or "no parameters")
