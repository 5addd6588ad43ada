"""Tells each mistake in the settings in one line: variable, value, choice."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from include.core.store_url import without_credentials

_KINDS = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}
_LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "up to", "exclusiveMaximum": "below"}


def variable_of(name: str) -> str:
    """Environment variable of a setting."""
    return f"PLIMSOLL_{name.upper()}"


def mistakes_of(error: ValidationError, model: type[BaseModel], source: dict[str, str]) -> list[str]:
    """One line per setting that cannot be used.

    Args:
        error: What the model found.
        model: The settings.
        source: Environment variables that they were read from.
    """
    # A list may be wrong at several places; the variable is one.
    messages = {str(found["loc"][0]): found for found in reversed(error.errors())}
    names = [name for name in model.model_fields if name in messages]
    lines = []
    for name in names:
        found = messages[name]
        own = str(found["ctx"]["error"]) if found["type"] == "value_error" else ""
        lines.append(mistake(variable_of(name), source.get(variable_of(name), ""), own or allowed(model, name)))
    return lines


def mistake(variable: str, found: str, choice: str) -> str:
    """The line itself."""
    return f"{variable} cannot be used | found: {without_credentials(found)!r} | allowed: {choice}"


def allowed(model: type[BaseModel], name: str) -> str:
    """What a setting takes, in words, from its declaration."""
    declared: dict[str, Any] = model.model_json_schema()["properties"][name]
    # An optional setting is declared as "this or null".
    choice = next((part for part in declared.get("anyOf", ()) if part.get("type") != "null"), declared)
    words = [_KINDS.get(choice.get("type", ""), "text")]
    words += [f"{word} {choice[key]:g}" for key, word in _LIMITS.items() if key in choice]
    if pattern := choice.get("pattern"):
        words.append(f"that matches {pattern}")
    return " ".join(words)
