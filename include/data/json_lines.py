"""JSON objects, one per line, to an Arrow table.

Not Arrow's own reader: a line that is ``null`` or nested deeply ends the whole process there. Python's parser answers
every text with a value or an exception.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pyarrow as pa

from include.core.errors import DataError

_MOST_COLUMNS = 10_000
# Keys that most lines lack still fill a cell in each: a small file must not become a huge table.
_MOST_CELLS = 2**28
_LARGEST_INTEGER = 2**63 - 1
_NESTED = pa.struct([])
_TYPES: dict[frozenset[type], pa.DataType] = {
    frozenset(): pa.null(),
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(),
    frozenset({float}): pa.float64(),
    frozenset({int, float}): pa.float64(),
    frozenset({str}): pa.string(),
    frozenset({dict}): _NESTED,
    frozenset({list}): _NESTED,
    frozenset({list, dict}): _NESTED,
}


def _refused(name: str, line: int, found: str) -> DataError:
    return DataError(
        "cannot read the jsonl file",
        where="data.source",
        found=f"{name}, line {line}: {found[:300]}",
        allowed="one JSON object per line, with the same kind of value under a key in all lines",
        todo="mend or export the file again",
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key occurs twice")
    return out


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _row(text: str, name: str, line: int) -> dict[str, Any]:
    try:
        row = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _refused(name, line, str(error) or type(error).__name__) from error
    if not isinstance(row, dict):
        raise _refused(name, line, f"a {type(row).__name__}, not an object")
    return row


def _columns(text: str, name: str) -> tuple[dict[str, list[Any]], list[int]]:
    """Values by key, None where a line lacks it, and the number of the line of each row."""
    columns: dict[str, list[Any]] = {}
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        for key, value in _row(line, name, number).items():
            column = columns.setdefault(key, [])
            column.extend([None] * (len(lines) - len(column)))
            column.append(value)
        lines.append(number)
        if len(columns) > _MOST_COLUMNS or len(columns) * len(lines) > _MOST_CELLS:
            raise _refused(name, number, f"{len(columns)} different keys in {len(lines)} lines are too many")
    for column in columns.values():
        column.extend([None] * (len(lines) - len(column)))
    return columns, lines


def _array(key: str, values: list[Any], name: str, lines: list[int]) -> pa.Array:
    kinds = frozenset(map(type, values)) - {type(None)}
    kind = _TYPES.get(kinds)
    if kind is None:
        first = {k.__name__: lines[next(i for i, v in enumerate(values) if type(v) is k)] for k in kinds}
        found = ", ".join(f"{what} in line {line}" for what, line in sorted(first.items(), key=lambda item: item[1]))
        raise _refused(name, max(first.values()), f"key {key!r} has values of several kinds: {found}")
    if kind == _NESTED:
        return pa.array([None if value is None else {} for value in values], _NESTED)
    if kind == pa.int64() and any(value is not None and abs(value) > _LARGEST_INTEGER for value in values):
        kind = pa.float64()
    try:
        return pa.array([float(v) if v is not None else v for v in values] if kind == pa.float64() else values, kind)
    except (UnicodeEncodeError, OverflowError) as error:
        raise _refused(name, lines[0], f"key {key!r}: {error}") from error


def read_json_lines(data: bytes, *, name: str) -> pa.Table:
    """Parse lines of JSON objects.

    Args:
        data: UTF-8; empty lines are passed over.
        name: Name of the file, for errors.

    Returns:
        One column per key, in the order of their first appearance; null where a line lacks the key. Nested values
        become empty structures: a column of them can only be dropped.

    Raises:
        DataError: A line is no JSON object, or a key has values of different kinds; the message names the line.
    """
    columns, lines = _columns(data.decode("utf-8"), name)
    if not lines:
        raise _refused(name, 1, "no line with an object")
    return pa.table({key: _array(key, values, name, lines) for key, values in columns.items()})
