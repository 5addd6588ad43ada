"""Contract dataclasses to JSON and back, through pydantic's type adapter: unknown and missing keys are errors."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    # Building an adapter costs milliseconds; contract types are few and live as long as the process.
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_json(value: Any) -> Any:  # noqa: ANN401 - any contract type
    """Plain JSON value of a contract dataclass (or of a tuple or dict of them)."""
    return _adapter(type(value)).dump_python(value, mode="json")


def from_json(kind: type[T], value: Any) -> T:  # noqa: ANN401 - any JSON value
    """Contract dataclass of a JSON value.

    Raises:
        pydantic.ValidationError: A key is missing or a value has the wrong type.
    """
    return _adapter(kind).validate_python(value)
