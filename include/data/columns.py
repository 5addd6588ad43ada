"""From the columns of a source to features and a label with plain types, or one clear error.

Numbers, booleans and decimals become ``numeric`` (float64), text becomes ``categorical``, the list column of an image
tree stays ``pixels``. Dates and nested values are refused: how a date becomes a number is a decision about the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from include.config.data_section import DataSection
from include.core.errors import DataError
from include.data.images import PIXELS
from include.data.location import shown
from include.data.sources import RawTable

ROW_ID = "row_id"
SPLIT = "split"
# Names that the prepared rows and the rows that expectations see have for themselves.
_RESERVED = (ROW_ID, SPLIT)
SMALLEST_TABLE_ROWS = 30
MOST_CATEGORIES = 100
# A text column in which most values occur once names rows; it does not describe them.
LARGEST_UNIQUE_SHARE = 0.5
# Models compute in float32, which ends at 3.4e38.
LARGEST_NUMBER = 3e38
_SHOWN_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanTable:
    """Rows with plain types.

    Attributes:
        table: ``row_id`` (string), the features in source order, and the label (string, never null).
        kinds: Feature name -> ``numeric``, ``categorical`` or ``pixels``, in column order.
        label: Name of the label column.
        classes: Label values in index order: by number when all are whole numbers, else by text.
        pixel_shape: (channels, height, width) of the ``pixels`` column, if there is one.
        dropped: Rows left out, by reason.
    """

    table: pa.Table
    kinds: dict[str, str]
    label: str
    classes: tuple[str, ...]
    pixel_shape: tuple[int, int, int] | None
    dropped: dict[str, int]


def _check_names(names: list[str], data: DataSection) -> None:
    """The names in the file and the names in the workload fit together."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError("column names occur twice", where="data.source", found=shown(repeated), allowed="unique names")
    if data.label not in names:
        raise DataError(
            "the label column is absent",
            where="data.label",
            found=data.label,
            allowed=f"one of the columns: {shown(names)}",
            todo="name the column to predict",
        )
    absent = [name for name in data.drop if name not in names]
    if absent:
        raise DataError(
            "columns to drop are absent",
            where="data.drop",
            found=shown(absent),
            allowed=f"columns of the source: {shown(names)}",
        )
    if data.label in data.drop:
        raise DataError("the label is among the columns to drop", where="data.drop", found=data.label)
    features = [name for name in names if name != data.label and name not in data.drop]
    if not features:
        raise DataError(
            "no input columns are left", where="data.drop", found=shown(names), allowed="at least one column"
        )
    _check_reserved(features, data.label)


def _check_reserved(features: list[str], label: str) -> None:
    if label in _RESERVED:
        raise DataError(
            "the name of the label column is reserved",
            where="data.label",
            found=label,
            allowed=f"any name but {shown(list(_RESERVED))}",
            todo="rename the column in the source",
        )
    for name in (name for name in _RESERVED if name in features):
        raise DataError(
            "this name is reserved",
            where="data.source",
            found=f"column {name!r}",
            todo=f"rename it in the source, or put {name!r} into data.drop",
        )
    if "" in features:
        raise DataError(
            "a column has no name, probably the row number of an export",
            where="data.source",
            found="column ''",
            todo="put '' into data.drop",
        )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Undo dictionary encoding and view types."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    numbers = column.cast(pa.float64(), safe=False)
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_number(kind: pa.DataType) -> bool:
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(check(kind) for check in checks)


def _feature(name: str, column: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray]:
    """Kind and plain values of one input column."""
    column = _plain(column)
    if _is_number(column.type):
        return "numeric", _numbers(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)
    if _is_text(column.type):
        return "categorical", column.cast(pa.string())
    if name == PIXELS and column.type == pa.list_(pa.uint8()):
        return "pixels", column
    raise DataError(
        f"column {name!r} has a type that cannot be an input",
        where="data.source",
        found=str(column.type),
        allowed="numbers, booleans and text (a date has to become a number first, a CSV has to be UTF-8)",
        todo=f"put {name!r} into data.drop or convert it in the source",
    )


def _label_text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Label values as text; whole numbers keep their integer text, whatever type the file stores them in."""
    column = _plain(column)
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type) or _is_text(column.type):
        return column.cast(pa.string())
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if _is_number(column.type):
        numbers = _numbers(column)
        if pc.all(pc.and_(pc.is_finite(numbers), pc.equal(pc.round(numbers), numbers)), min_count=0).as_py():
            return numbers.cast(pa.int64()).cast(pa.string())
    raise DataError(
        "the label is not a class",
        where="data.label",
        found=f"column {name!r} of type {column.type}",
        allowed="text, booleans or whole numbers",
        todo="group the values into classes in the source; regression is not offered",
    )


def _classes(labels: pa.ChunkedArray) -> tuple[str, ...]:
    values = pc.unique(labels).to_pylist()
    if all(value.removeprefix("-").isdecimal() for value in values):
        return tuple(sorted(values, key=lambda value: (int(value), value)))  # "1" and "01" are two classes
    return tuple(sorted(values))


def _check_labels(labels: pa.ChunkedArray, classes: tuple[str, ...], label: str) -> None:
    rows = len(labels)
    if rows < SMALLEST_TABLE_ROWS:
        raise DataError(
            "too few rows with a label",
            where="data.source",
            found=f"{rows} rows",
            allowed=f"at least {SMALLEST_TABLE_ROWS}",
        )
    if len(classes) < 2:  # noqa: PLR2004 - two classes make a choice
        raise DataError(
            "the label has a single class", where="data.label", found=f"{label} = {classes[0]!r}", allowed="at least 2"
        )
    if len(classes) > rows * LARGEST_UNIQUE_SHARE:
        raise DataError(
            "the label looks like an identifier or a measured value",
            where="data.label",
            found=f"{len(classes)} different values in {rows} rows of {label!r}",
            allowed="classes, each with several rows",
        )


def _check_cardinality(table: pa.Table, kinds: dict[str, str]) -> None:
    """Refuse text columns that name rows: one-hot columns of them would only memorise."""
    limit = min(MOST_CATEGORIES, int(table.num_rows * LARGEST_UNIQUE_SHARE))
    wide = {}
    for name in (name for name, kind in kinds.items() if kind == "categorical"):
        values = pc.count_distinct(table[name], mode="only_valid").as_py()
        if values > limit:
            wide[name] = values
    if wide:
        raise DataError(
            "text columns with too many different values",
            where="data.drop",
            found=shown([f"{name!r} ({count} values)" for name, count in wide.items()]),
            allowed=f"at most {limit} different values in {table.num_rows} rows",
            todo=f"put {', '.join(map(repr, wide))} into data.drop, or group the values in the source",
        )


def _check_range(table: pa.Table, kinds: dict[str, str]) -> None:
    """Refuse numbers that a model, which computes in float32, would see as infinite."""
    found = []
    for name in (name for name, kind in kinds.items() if kind == "numeric"):
        beyond = pc.fill_null(pc.greater(pc.abs(table[name]), LARGEST_NUMBER), fill_value=False)
        rows = table.select([ROW_ID, name]).filter(beyond)
        if rows.num_rows:
            first = zip(*(column.to_pylist() for column in rows.slice(0, _SHOWN_ROWS).columns), strict=True)
            cells = ", ".join(f"row_id {row} is {value}" for row, value in first)
            found.append(f"column {name!r}: {rows.num_rows} rows, {cells}")
    if found:
        raise DataError(
            "numbers are infinite or too large",
            where="data.source",
            found=shown(found),
            allowed=f"finite numbers from -{LARGEST_NUMBER:.0e} to {LARGEST_NUMBER:.0e}, or an empty cell",
            todo="mend these cells in the source or leave them empty, or put the column into data.drop",
        )


def _name_of(data: DataSection) -> str:
    source = data.source
    return str(getattr(source, "uri", getattr(source, "path", source.kind)))


def clean(raw: RawTable, data: DataSection) -> CleanTable:
    """Features and label with plain types.

    Args:
        raw: Rows as the source has them.
        data: The ``data`` section of the workload.

    Raises:
        DataError: The columns or rows cannot be used; the message says which and what to do.
    """
    _check_names(raw.table.column_names, data)
    if raw.table.num_rows == 0:
        raise DataError(
            "the data is empty", where="data.source", found=f"0 rows in {_name_of(data)}", allowed="at least one row"
        )
    ids = raw.row_ids or [str(number) for number in range(raw.table.num_rows)]
    columns: dict[str, pa.ChunkedArray] = {ROW_ID: pa.array(ids, pa.string())}
    kinds: dict[str, str] = {}
    for name in raw.table.column_names:
        if name != data.label and name not in data.drop:
            kinds[name], columns[name] = _feature(name, raw.table[name])
    labels = _label_text(data.label, raw.table[data.label])
    columns[data.label] = labels
    table = pa.table(columns)
    unlabelled = labels.null_count
    if unlabelled:
        table = table.filter(pc.is_valid(labels))
    classes = _classes(table[data.label])
    _check_labels(table[data.label], classes, data.label)
    _check_cardinality(table, kinds)
    _check_range(table, kinds)
    dropped = {**raw.skipped, **({"no label": unlabelled} if unlabelled else {})}
    return CleanTable(
        table=table, kinds=kinds, label=data.label, classes=classes, pixel_shape=raw.pixel_shape, dropped=dropped
    )
