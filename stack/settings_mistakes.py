"""Reads every setting before anything is done, and tells all mistakes at once, one line each."""

from __future__ import annotations

import os

from pydantic import ValidationError

from include.config.settings import Settings
from include.config.settings_mistakes import mistakes_of
from include.core.errors import UserError
from stack.errors import SettingsError
from stack.installation import StackSettings


def read_settings(environ: dict[str, str] | None = None) -> StackSettings:
    """Settings of the stack, after those of the engine were looked at too.

    Raises:
        SettingsError: One or more of them cannot be used; one line per mistake.
    """
    source = dict(os.environ) if environ is None else environ
    lines = _of_the_stack(source) + _of_the_engine(source)
    if lines:
        raise SettingsError("\n".join(lines))
    return StackSettings.from_environment(source)


def _of_the_stack(source: dict[str, str]) -> list[str]:
    try:
        StackSettings.from_environment(source)
    except ValidationError as error:
        return mistakes_of(error, StackSettings, source)
    return []


def _of_the_engine(source: dict[str, str]) -> list[str]:
    try:
        Settings.from_environment(source)
    except UserError as error:
        return str(error).splitlines()
    return []
