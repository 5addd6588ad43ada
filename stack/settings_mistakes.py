"""Reads every setting before anything is done, and tells each mistake in one line: variable, value, choice."""

from __future__ import annotations

import os
from typing import Any

from pydantic import ValidationError

from include.config.schedule import Edge
from include.config.settings import Settings
from stack.errors import SettingsError
from stack.installation import StackSettings

_KINDS = {"integer": "a whole number", "number": "a number"}
# What the object store opens; anything else would fail deep inside a run.
_STORES = ("file://", "s3://", "gs://", "az://")
_LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "up to", "exclusiveMaximum": "below"}


def read_settings(environ: dict[str, str] | None = None) -> StackSettings:
    """Settings of the stack, after those of the engine were looked at too.

    Raises:
        SettingsError: One or more of them cannot be used; one line per mistake.
    """
    source = dict(os.environ) if environ is None else environ
    lines = _mistakes(StackSettings, source) + _mistakes(Settings, source)
    if (store := source.get("PLIMSOLL_STORE")) is not None and not store.startswith(_STORES):
        lines.append(_line("PLIMSOLL_STORE", store, f"a URL that begins with one of {', '.join(_STORES)}"))
    if lines:
        raise SettingsError("\n".join(lines))
    return StackSettings.from_environment(source)


def _mistakes(model: type[StackSettings | Settings], source: dict[str, str]) -> list[str]:
    try:
        model.from_environment(source)
    except ValidationError as error:
        # A list may be wrong at several places; the variable is one.
        names = dict.fromkeys(str(found["loc"][0]) for found in error.errors())
        variables = {name: f"PLIMSOLL_{name.upper()}" for name in names}
        return [_line(text, source.get(text, ""), allowed(model, name)) for name, text in variables.items()]
    return []


def _line(variable: str, found: str, choice: str) -> str:
    return f"{variable} cannot be used | found: {found!r} | allowed: {choice}"


def allowed(model: type[Edge], name: str) -> str:
    """What a setting takes, in words, from its declaration."""
    declared: dict[str, Any] = model.model_json_schema()["properties"][name]
    # An optional setting is declared as "this or null".
    choice = next((part for part in declared.get("anyOf", ()) if part.get("type") != "null"), declared)
    words = [_KINDS.get(choice.get("type", ""), "text")]
    words += [f"{word} {choice[key]:g}" for key, word in _LIMITS.items() if key in choice]
    if pattern := choice.get("pattern"):
        words.append(f"that matches {pattern}")
    return " ".join(words)
