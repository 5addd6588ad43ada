"""The body of an invocation in MLflow's scoring format, checked and turned into encoded rows.

Accepted is exactly one of

* ``{"inputs": [...]}``: encoded samples, as the model takes them;
* ``{"dataframe_split": {"columns": [...], "data": [[...]]}}`` or ``{"dataframe_records": [{...}]}``: raw columns,
  encoded here with the dataset's manifest; null stands for an unknown value, further columns are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError
from include.data.encoding import encode_features

Rows = NDArray[np.float32]
Columns = Mapping[str, Sequence[Any]]
FORMATS = ("inputs", "dataframe_split", "dataframe_records")
MAX_ROWS = 4096


class BadBodyError(Exception):
    """The body cannot be scored; the message says what to change."""


def parse_body(raw: bytes, manifest: DatasetManifest) -> Rows:
    """Encoded rows of a request body.

    Args:
        raw: The body.
        manifest: Manifest of the dataset that the model was trained on.

    Returns:
        Finite float32 of shape (rows, *input_shape), with at least one row.

    Raises:
        BadBodyError: Not JSON, not one of the formats, wrong shape, not finite, or columns missing.
    """
    document = _document(raw)
    if "inputs" in document:
        rows = _tensor(document["inputs"], manifest.input_shape)
    else:
        rows = _encode(_columns(document), manifest)
    if not np.isfinite(rows).all():
        raise BadBodyError("the rows hold values that are not finite numbers (null, or too large for float32)")
    return rows


def _document(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadBodyError(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadBodyError(f"the body must be an object with one of: {', '.join(FORMATS)}")
    found = [name for name in FORMATS if name in document]
    unknown = sorted(set(document) - set(FORMATS))
    if len(found) != 1 or unknown:
        what = f"unknown keys {unknown}" if unknown else f"found {found or 'none'}"
        raise BadBodyError(f"the body must have exactly one of: {', '.join(FORMATS)}; {what}")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number; raw columns may hold null for an unknown value")


def _tensor(value: Any, shape: tuple[int, ...]) -> Rows:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        if len(value) != 1:
            raise BadBodyError(f"the model has one input, found {sorted(value)}")
        value = next(iter(value.values()))
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise BadBodyError(f"inputs must be nested lists of numbers, all of one shape: {error}") from error
    if found.dtype.kind not in "iuf":
        raise BadBodyError("inputs must hold numbers only: no text, booleans or nulls")
    with np.errstate(over="ignore"):
        rows = found.astype(np.float32)
    if rows.ndim != len(shape) + 1 or rows.shape[1:] != shape:
        wanted = ("rows", *shape)
        raise BadBodyError(f"inputs have shape {list(rows.shape)}; wanted: [{', '.join(map(str, wanted))}]")
    _check_count(len(rows))
    return rows


def _check_count(rows: int) -> None:
    if rows == 0:
        raise BadBodyError("the body holds no rows")
    if rows > MAX_ROWS:
        raise BadBodyError(f"the body holds {rows} rows; at most {MAX_ROWS} per request")


def _columns(document: dict[str, Any]) -> Columns:
    if "dataframe_split" in document:
        return _split_columns(document["dataframe_split"])
    return _record_columns(document["dataframe_records"])


def _split_columns(split: Any) -> Columns:  # noqa: ANN401 - any JSON value
    if not isinstance(split, dict) or not {"columns", "data"} <= set(split) <= {"columns", "data", "index"}:
        raise BadBodyError("dataframe_split must be an object with 'columns' and 'data'")
    names, data = split["columns"], split["data"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadBodyError("dataframe_split.columns must be a list of column names")
    if len(set(names)) != len(names):
        raise BadBodyError("dataframe_split.columns names a column twice")
    if not isinstance(data, list) or not all(isinstance(row, list) and len(row) == len(names) for row in data):
        raise BadBodyError(f"dataframe_split.data must be a list of rows with {len(names)} values each")
    _check_count(len(data))
    return dict(zip(names, map(list, zip(*data, strict=True)), strict=True))


def _record_columns(records: Any) -> Columns:  # noqa: ANN401 - any JSON value
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise BadBodyError("dataframe_records must be a list of objects")
    _check_count(len(records))
    names = set(records[0])
    for index, record in enumerate(records):
        if set(record) != names:
            odd = sorted(names ^ set(record))
            raise BadBodyError(f"dataframe_records[{index}] has other columns than the first record: {odd}")
    return {name: [record[name] for record in records] for name in names}


def _encode(columns: Columns, manifest: DatasetManifest) -> Rows:
    missing = [feature.name for feature in manifest.features if feature.name not in columns]
    if missing:
        shown = ", ".join(missing[:10]) + (f" and {len(missing) - 10} more" if len(missing) > 10 else "")  # noqa: PLR2004 - enough to see the pattern
        raise BadBodyError(f"missing columns: {shown}")
    for feature in manifest.features:
        _check_kind(feature.name, feature.kind, columns[feature.name])
    try:
        with np.errstate(over="ignore"):
            return encode_features(columns, manifest)
    except (DataError, OverflowError) as error:
        raise BadBodyError(f"the columns cannot be encoded: {error}") from error


def _check_kind(name: str, kind: str, values: Sequence[Any]) -> None:
    for value in values:
        if kind == "numeric" and value is not None and not isinstance(value, int | float):
            raise BadBodyError(f"column {name!r} is numeric; found {value!r}")
        if kind == "pixels" and not isinstance(value, list):
            raise BadBodyError(f"column {name!r} holds pixels and must be a list of integers 0..255; found {value!r}")
        if kind == "categorical" and isinstance(value, list | dict):
            raise BadBodyError(f"column {name!r} is categorical; found {value!r}")
