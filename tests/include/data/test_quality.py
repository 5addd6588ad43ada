"""The tables that are checked, and the checks that always apply."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from include.core.errors import DataError
from include.data.prepare import prepare_dataset
from include.data.quality import (
    CLASSES,
    COLUMNS,
    IDENTITY,
    PIXEL_COUNT,
    ROWS,
    automatic_checks,
    quality_tables,
    read_rows,
    row_columns,
    workload_checks,
)
from tests.support.tables import passengers, section, write_pictures, write_table


@pytest.fixture
def prepared(tmp_path, file_store):
    """Manifest and rows of a table or an image tree under the data root."""

    def run(columns=None, *, images=False):
        root = tmp_path / "data"
        if images:
            write_pictures(root / "tree")
        else:
            write_table(columns or passengers(), root / "t.parquet")
        data = section("tree", label="animal") if images else section("t.parquet")
        manifest = prepare_dataset(store=file_store, data=data, roots=(root,)).manifest
        return manifest, read_rows(file_store, manifest)

    return run


def test_columns_know_their_types_nulls_and_infinite_values(prepared) -> None:
    manifest, rows = prepared()
    fares = [float("inf") if row == "7" else 1.0 for row in rows["row_id"].to_pylist()]
    rows = rows.set_column(rows.schema.get_field_index("fare"), "fare", [fares])
    facts = quality_tables(rows, manifest)[COLUMNS].set_index("column")
    assert (facts["type"] == facts["expected_type"]).all()
    assert (facts.loc["fare", "infinite_values"], facts.loc["fare", "first_infinite_rows"]) == (1, "7")
    assert facts.loc["age", "null_share"] == pytest.approx(11 / 120)
    assert len(facts.loc["age", "first_null_rows"].split(", ")) == 5


def test_repeats_and_leakage_are_counted_per_row(prepared) -> None:
    manifest, rows = prepared()
    doubled = pa.concat_tables(
        [rows, rows.slice(0, 1).set_column(rows.schema.get_field_index("split"), "split", [["test"]])]
    )
    identity = quality_tables(doubled, manifest)[IDENTITY]
    assert identity["repeats"].tolist() == [0] * 120 + [1]
    assert [i for i, n in enumerate(identity["splits_with_these_inputs"]) if n > 1] == [0, 120]


def test_the_same_inputs_with_another_label_leak_but_do_not_repeat(prepared) -> None:
    manifest, rows = prepared()
    other = rows.slice(0, 1).set_column(rows.schema.get_field_index("survived"), "survived", [["other"]])
    other = other.set_column(other.schema.get_field_index("split"), "split", [["test"]])
    identity = quality_tables(pa.concat_tables([rows, other]), manifest)[IDENTITY]
    assert identity["repeats"].max() == 0
    assert identity["splits_with_these_inputs"].max() == 2


def test_classes_have_their_share(prepared) -> None:
    manifest, rows = prepared()
    assert dict(quality_tables(rows, manifest)[CLASSES][["class", "share"]].to_numpy()) == {"0": 0.5, "1": 0.5}


def test_pixels_are_checked_by_their_number(prepared) -> None:
    manifest, rows = prepared(images=True)
    tables = quality_tables(rows, manifest)
    assert list(tables[ROWS].columns) == [*row_columns(manifest)] == ["row_id", "animal", "split", PIXEL_COUNT]
    assert set(tables[ROWS][PIXEL_COUNT]) == {3 * 6 * 6}
    assert COLUMNS not in tables
    assert any(check.arguments.get("column") == PIXEL_COUNT for check in automatic_checks(manifest, section("tree")))


def test_every_promise_of_the_data_section_has_a_check(prepared) -> None:
    manifest, _ = prepared()
    checks = automatic_checks(manifest, section("t.parquet", max_null_share=0.25, min_class_share=0.125))
    assert {check.why for check in checks} >= {
        "schema",
        "nulls",
        "finite numbers",
        "labels",
        "balance",
        "duplicates",
        "leakage",
    }
    by_setting = {check.setting: check.arguments for check in checks}
    assert by_setting["data.max_null_share"]["max_value"] == 0.25
    assert by_setting["data.min_class_share"]["min_value"] == 0.125
    assert by_setting["data.max_duplicate_share"]["mostly"] == pytest.approx(0.95)


def test_the_number_of_automatic_checks_does_not_grow_with_the_columns(prepared) -> None:
    manifest, _ = prepared()
    wide = replace(manifest, features=tuple(replace(manifest.features[0], name=f"c{i}") for i in range(1000)))
    data = section("t.parquet")
    assert len(automatic_checks(wide, data)) == len(automatic_checks(manifest, data))


@pytest.mark.parametrize(
    "arguments", [{"column": "aeg"}, {"column_A": "age", "column_B": "aeg"}, {"column_list": ["aeg"]}]
)
def test_an_expectation_on_an_absent_column_is_refused(prepared, arguments) -> None:
    manifest, _ = prepared()
    data = section("t.parquet", expectations=[{"type": "expect_something", "arguments": arguments}])
    with pytest.raises(DataError, match=r"data\.expectations\.0.*aeg.*row_id, age"):
        workload_checks(data, row_columns(manifest))
