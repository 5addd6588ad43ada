"""What must hold of prepared rows: the checks that always apply and the ones a workload file adds.

A check is plain data here; `include.data.expectations` runs it with Great Expectations. There are four tables:

- ``rows``: the prepared rows of all splits with their split
- ``columns``: one row per input column with its type, nulls and infinite values
- ``identity``: for each row, how often it repeats and in how many splits its inputs occur
- ``classes``: one row per class with its share

The number of automatic checks does not grow with the number of columns: with one set per column, Great Expectations
needs seconds for a table of pixels and minutes for a wide one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from include.config.data_section import DataSection
from include.core.contracts.dataset import SPLITS, DatasetManifest, Feature
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.columns import ROW_ID, SPLIT
from include.data.encoding import read_shard
from include.data.images import PIXEL_COUNT
from include.data.split import row_hashes

ROWS, COLUMNS, IDENTITY, CLASSES = "rows", "columns", "identity", "classes"
# Columns that name a row of each table in failures.
INDEX = {
    ROWS: (ROW_ID,),
    COLUMNS: ("column", "first_null_rows", "first_infinite_rows"),
    IDENTITY: (ROW_ID, SPLIT),
    CLASSES: ("class", "rows"),
}
_FIRST_ROWS = 5
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")
# A row condition is code that pandas would evaluate; a workload file holds data only.
_REFUSED_ARGUMENTS = ("row_condition", "condition_parser")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation.

    Attributes:
        table: ``rows``, ``columns``, ``identity`` or ``classes``.
        type: Great Expectations type, in snake case.
        arguments: Its arguments.
        setting: Key path of the workload that governs it.
        why: What it guards against, for the report.
    """

    table: str
    type: str
    arguments: dict[str, Any]
    setting: str
    why: str = ""


def read_rows(store: ObjectStore, manifest: DatasetManifest) -> pa.Table:
    """All rows of all splits with a ``split`` column.

    Raises:
        DataError: A shard is missing or damaged.
    """
    tables = []
    for split in SPLITS:
        for shard in (s for s in manifest.shards if s.split == split):
            table = read_shard(store, shard)
            tables.append(table.append_column(SPLIT, pa.array([split] * len(table), pa.string())))
    return pa.concat_tables(tables)


def _repeats(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """For each row, the number of equal rows before it."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(ordered)])
    out = np.empty(len(hashes), dtype=np.int64)
    out[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return out


def _splits_of_inputs(hashes: npt.NDArray[np.uint64], splits: list[str]) -> npt.NDArray[np.int64]:
    """For each row, in how many splits its inputs occur."""
    codes = np.array([SPLITS.index(split) for split in splits])
    _, group = np.unique(hashes, return_inverse=True)
    present = np.zeros((int(group.max(initial=0)) + 1, len(SPLITS)), dtype=bool)
    present[group, codes] = True
    return present.sum(axis=1)[group].astype(np.int64)


def _column_facts(frame: Any, feature: Feature) -> dict[str, Any]:  # noqa: ANN401 - a pandas frame
    """One row of the ``columns`` table."""
    values = frame[feature.name]
    null = values.isna().to_numpy()
    numeric = feature.kind == "numeric" and values.dtype.kind == "f"
    infinite = np.isinf(values.to_numpy()) if numeric else np.zeros(len(values), dtype=bool)
    ids = frame[ROW_ID].to_numpy()
    return {
        "column": feature.name,
        "type": str(values.dtype),
        "expected_type": "float64" if feature.kind == "numeric" else "str",
        "null_share": float(null.mean()),
        "first_null_rows": ", ".join(ids[null][:_FIRST_ROWS]),
        "infinite_values": int(infinite.sum()),
        "first_infinite_rows": ", ".join(ids[infinite][:_FIRST_ROWS]),
    }


def _plain_frame(rows: pa.Table, pixels: list[str]) -> Any:  # noqa: ANN401 - a pandas frame
    """The rows without list columns: lists have no order and no hash, what can be wrong with them is their length."""
    frame = rows.drop_columns(pixels).to_pandas()
    for name in pixels:
        frame[PIXEL_COUNT] = pc.list_value_length(rows[name]).to_pandas()
    return frame


def quality_tables(rows: pa.Table, manifest: DatasetManifest) -> dict[str, Any]:
    """The four tables as pandas frames.

    Args:
        rows: What `read_rows` returned.
        manifest: The dataset.
    """
    import pandas as pd

    names = [feature.name for feature in manifest.features]
    plain = [feature for feature in manifest.features if feature.kind != "pixels"]
    splits = rows[SPLIT].to_pylist()
    frame = _plain_frame(rows, [f.name for f in manifest.features if f.kind == "pixels"])
    identity = {
        ROW_ID: rows[ROW_ID].to_pylist(),
        SPLIT: splits,
        "repeats": _repeats(row_hashes(rows, [*names, manifest.label])),
        "splits_with_these_inputs": _splits_of_inputs(row_hashes(rows, names), splits),
    }
    counts = frame[manifest.label].value_counts()
    classes = {"class": counts.index.astype(str), "rows": counts.to_numpy(), "share": counts.to_numpy() / len(frame)}
    tables = {ROWS: frame, IDENTITY: pd.DataFrame(identity), CLASSES: pd.DataFrame(classes)}
    if plain:
        tables[COLUMNS] = pd.DataFrame([_column_facts(frame, feature) for feature in plain])
    return tables


def row_columns(manifest: DatasetManifest) -> list[str]:
    """Columns of the ``rows`` table: what an expectation of a workload file may name."""
    plain = [f.name for f in manifest.features if f.kind != "pixels"]
    pixels = [PIXEL_COUNT] if len(plain) < len(manifest.features) else []
    return [ROW_ID, *plain, manifest.label, SPLIT, *pixels]


def automatic_checks(manifest: DatasetManifest, data: DataSection) -> list[Check]:
    """The checks that apply to every dataset: schema, nulls, ranges, labels, balance, duplicates, leakage."""
    columns = row_columns(manifest)
    plain = [f.name for f in manifest.features if f.kind != "pixels"]

    def check(table: str, kind: str, setting: str, why: str, **arguments: Any) -> Check:  # noqa: ANN401 - GX's own
        return Check(table=table, type=f"expect_{kind}", arguments=arguments, setting=setting, why=why)

    between, in_set = "column_values_to_be_between", "column_values_to_be_in_set"
    label = {"column": manifest.label}
    checks = [
        check(ROWS, "table_columns_to_match_set", "data.source", "schema", column_set=columns, exact_match=True),
        check(ROWS, "column_values_to_not_be_null", "data.label", "labels", **label),
        check(ROWS, in_set, "data.label", "labels", **label, value_set=list(manifest.classes)),
        check(CLASSES, between, "data.min_class_share", "balance", column="share", min_value=data.min_class_share),
        check(
            IDENTITY, between, "data.max_duplicate_share", "duplicates",
            column="repeats", max_value=0, mostly=1 - data.max_duplicate_share,
        ),
        check(IDENTITY, between, "data.split", "leakage", column="splits_with_these_inputs", max_value=1),
    ]  # fmt: skip
    if plain:
        checks += [
            check(
                COLUMNS, "column_pair_values_to_be_equal", "data.source", "schema",
                column_A="type", column_B="expected_type",
            ),
            check(
                COLUMNS, between, "data.max_null_share", "nulls", column="null_share", max_value=data.max_null_share
            ),
            check(COLUMNS, between, "data.source", "finite numbers", column="infinite_values", max_value=0),
        ]  # fmt: skip
    if PIXEL_COUNT in columns:
        length = math.prod(manifest.input_shape)
        checks.append(check(ROWS, in_set, "data.source", "schema", column=PIXEL_COUNT, value_set=[length]))
    return checks


def _columns_named(arguments: dict[str, Any]) -> list[str]:
    named: list[str] = []
    for key in _COLUMN_ARGUMENTS:
        value = arguments.get(key, [])
        named += [value] if isinstance(value, str) else [str(item) for item in value]
    return named


def workload_checks(data: DataSection, columns: list[str]) -> list[Check]:
    """The expectations of a workload file, on the ``rows`` table.

    Args:
        data: The ``data`` section.
        columns: Columns of the ``rows`` table.

    Raises:
        DataError: An expectation names a column that is not there, or has an argument that is not allowed.
    """
    checks = []
    for position, entry in enumerate(data.expectations):
        where = f"data.expectations.{position}"
        refused = [key for key in _REFUSED_ARGUMENTS if key in entry.arguments]
        if refused:
            raise DataError(
                f"{entry.type} has an argument that is not allowed",
                where=f"{where}.arguments.{refused[0]}",
                found=str(entry.arguments[refused[0]])[:80],
                allowed="arguments that are plain values",
            )
        absent = [name for name in _columns_named(entry.arguments) if name not in columns]
        if absent and entry.type != "expect_column_to_exist" and "column_set" not in entry.arguments:
            raise DataError(
                f"{entry.type} names a column that the prepared rows do not have",
                where=f"{where}.arguments",
                found=", ".join(absent),
                allowed=", ".join(columns),
            )
        checks.append(Check(table=ROWS, type=entry.type, arguments=entry.arguments, setting=where, why="workload file"))
    return checks
