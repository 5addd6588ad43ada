"""What must hold of prepared rows: the checks that always apply and the ones a workload file adds.

A check is plain data here; `include.data.expectations` runs it with Great Expectations. There are three tables:
``rows`` (the prepared rows of all splits with their split), ``identity`` (for each row, how often it repeats and in how
many splits its inputs occur) and ``classes`` (one row per class with its share).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from include.config.data_section import DataSection
from include.core.contracts.dataset import SPLITS, DatasetManifest
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.columns import ROW_ID
from include.data.encoding import read_shard
from include.data.split import row_hashes

SPLIT = "split"
ROWS, IDENTITY, CLASSES = "rows", "identity", "classes"
PIXEL_COUNT = "pixel_count"
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")
# A row condition is code that pandas would evaluate; a workload file holds data only.
_REFUSED_ARGUMENTS = ("row_condition", "condition_parser")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation.

    Attributes:
        table: ``rows``, ``identity`` or ``classes``.
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


def quality_tables(rows: pa.Table, manifest: DatasetManifest) -> dict[str, Any]:
    """The three tables as pandas frames.

    Args:
        rows: What `read_rows` returned.
        manifest: The dataset.
    """
    import pandas as pd

    names = [feature.name for feature in manifest.features]
    splits = rows[SPLIT].to_pylist()
    identity = pd.DataFrame(
        {
            ROW_ID: rows[ROW_ID].to_pylist(),
            SPLIT: splits,
            "repeats": _repeats(row_hashes(rows, [*names, manifest.label])),
            "splits_with_these_inputs": _splits_of_inputs(row_hashes(rows, names), splits),
        }
    )
    pixels = [feature.name for feature in manifest.features if feature.kind == "pixels"]
    plain = rows.drop_columns(pixels).to_pandas()
    if pixels:
        # Lists have no order and no hash; what can be wrong with them is their length.
        plain[PIXEL_COUNT] = pa.compute.list_value_length(rows[pixels[0]]).to_pandas()
    counts = plain[manifest.label].value_counts()
    classes = pd.DataFrame({"class": counts.index.astype(str), "rows": counts.to_numpy()})
    classes["share"] = classes["rows"] / max(1, len(plain))
    return {ROWS: plain, IDENTITY: identity, CLASSES: classes}


def _column_checks(manifest: DatasetManifest, data: DataSection) -> list[Check]:
    checks = []
    for feature in manifest.features:
        name = feature.name
        if feature.kind == "pixels":
            continue
        kind = "float64" if feature.kind == "numeric" else "str"
        checks += [
            Check(
                table=ROWS,
                type="expect_column_values_to_be_of_type",
                arguments={"column": name, "type_": kind},
                setting="data.source",
                why="schema",
            ),
            Check(
                table=ROWS,
                type="expect_column_values_to_not_be_null",
                arguments={"column": name, "mostly": 1 - data.max_null_share},
                setting="data.max_null_share",
                why="nulls",
            ),
        ]
        if feature.kind == "numeric":
            limit = sys.float_info.max
            checks.append(
                Check(
                    table=ROWS,
                    type="expect_column_values_to_be_between",
                    arguments={"column": name, "min_value": -limit, "max_value": limit},
                    setting="data.source",
                    why="finite numbers",
                )
            )
    return checks


def automatic_checks(manifest: DatasetManifest, data: DataSection) -> list[Check]:
    """The checks that apply to every dataset: schema, nulls, ranges, labels, balance, duplicates, leakage."""
    plain = [f.name for f in manifest.features if f.kind != "pixels"]
    pixels = [PIXEL_COUNT] if len(plain) < len(manifest.features) else []
    columns = [ROW_ID, *plain, manifest.label, SPLIT, *pixels]

    def check(table: str, kind: str, setting: str, why: str, **arguments: Any) -> Check:  # noqa: ANN401 - GX's own
        return Check(table=table, type=kind, arguments=arguments, setting=setting, why=why)

    between, in_set, not_null = (
        "expect_column_values_to_be_between",
        "expect_column_values_to_be_in_set",
        "expect_column_values_to_not_be_null",
    )
    checks = [
        check(ROWS, "expect_table_columns_to_match_set", "data.source", "schema", column_set=columns, exact_match=True),
        *_column_checks(manifest, data),
        check(ROWS, not_null, "data.label", "labels", column=manifest.label),
        check(ROWS, in_set, "data.label", "labels", column=manifest.label, value_set=list(manifest.classes)),
        check(CLASSES, between, "data.min_class_share", "balance", column="share", min_value=data.min_class_share),
        check(
            IDENTITY, between, "data.max_duplicate_share", "duplicates",
            column="repeats", max_value=0, mostly=1 - data.max_duplicate_share,
        ),
        check(IDENTITY, between, "data.split", "leakage", column="splits_with_these_inputs", max_value=1),
    ]  # fmt: skip
    if pixels:
        length = int(np.prod(manifest.input_shape))
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
