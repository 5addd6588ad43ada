"""Types of columns and labels, and every way in which they cannot be used."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from include.core.errors import DataError
from include.data.columns import clean
from include.data.sources import RawTable
from tests.support.tables import passengers, section


def cleaned(columns: dict | None = None, *, label: str = "survived", drop: tuple[str, ...] = (), **changed):
    table = pa.table({**(columns or passengers()), **changed})
    return clean(RawTable(table=table), section("t.csv", label=label, drop=drop))


def test_numbers_booleans_and_text_become_inputs_and_integers_stay_labels() -> None:
    result = cleaned()
    assert result.kinds == {"age": "numeric", "fare": "numeric", "port": "categorical", "alone": "numeric"}
    assert result.classes == ("0", "1")
    assert result.table["alone"].to_pylist()[:4] == [1.0, 0.0, 0.0, 1.0]
    assert result.table["row_id"].to_pylist()[:2] == ["0", "1"]


def test_integer_labels_are_ordered_by_number_and_text_by_letter() -> None:
    assert cleaned(survived=[i % 12 for i in range(120)]).classes[-2:] == ("10", "11")
    assert cleaned(survived=["b", "a"] * 60).classes == ("a", "b")


def test_labels_that_are_equal_as_numbers_but_not_as_text_stay_apart() -> None:
    assert cleaned(survived=["10", "1", "01"] * 40).classes == ("01", "1", "10")


def test_a_reserved_name_may_be_dropped_and_large_numbers_may_stay() -> None:
    result = cleaned(drop=("split", "row_id"), split=[1] * 120, row_id=[1] * 120, fare=[-3e38, 3e38] * 60)
    assert result.table.column_names == ["row_id", "age", "fare", "port", "alone", "survived"]


def test_whole_numbers_stored_as_floats_keep_their_integer_text() -> None:
    result = cleaned(survived=[float(i % 2) if i else None for i in range(120)])
    assert (result.classes, result.dropped) == (("0", "1"), {"no label": 1})
    assert result.table["row_id"].to_pylist()[0] == "1"


def test_nan_is_null_and_minus_zero_stays_a_number() -> None:
    column = cleaned(fare=[float("nan"), -0.0] * 60).table["fare"]
    assert (column.null_count, column.to_pylist()[:2]) == (60, [None, -0.0])


def test_dictionary_encoded_text_is_plain_text_afterwards() -> None:
    ports = pa.array(["n", "s"] * 60).dictionary_encode()
    result = cleaned(port=ports)
    assert (result.kinds["port"], result.table["port"].type) == ("categorical", pa.string())


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        ({"label": "survivor"}, ["label column is absent", "data.label", "survivor", "survived"]),
        ({"drop": ("nmae",)}, ["data.drop", "nmae", "age"]),
        ({"drop": ("survived",)}, ["label is among", "data.drop"]),
        ({"drop": ("age", "fare", "port", "alone")}, ["no input columns"]),
        ({"row_id": list(range(120))}, ["reserved", "put 'row_id' into data.drop"]),
        ({"split": list(range(120))}, ["reserved", "rename", "put 'split' into data.drop"]),
        ({"label": "row_id", "row_id": [0, 1] * 60}, ["label column is reserved", "data.label", "row_id", "rename"]),
        ({"label": "split", "split": [0, 1] * 60}, ["label column is reserved", "data.label", "split", "rename"]),
        (
            {"fare": [float("inf"), 1.0, -float("inf"), *range(117)], "age": [1.0] * 119 + [1e300]},
            ["'fare': 2 rows, row_id 0 is inf, row_id 2 is -inf", "'age': 1 rows, row_id 119 is 1e+300", "3e+38"],
        ),
        ({"": list(range(120))}, ["no name", "put '' into data.drop"]),
        ({"name": [f"n{i}" for i in range(120)]}, ["'name' (120 values)", "at most 60", "data.drop"]),
        ({"when": [dt.date(2026, 1, 1)] * 120}, ["'when'", "date32", "put 'when' into data.drop"]),
        ({"raw": [b"\xff"] * 120}, ["'raw'", "binary", "UTF-8"]),
        ({"survived": [1] * 120}, ["single class", "survived = '1'"]),
        ({"survived": [i / 3 for i in range(120)]}, ["not a class", "double", "regression"]),
        ({"survived": list(range(120))}, ["looks like an identifier", "120 different values"]),
        ({"survived": [None] * 120}, ["too few rows", "0 rows"]),
    ],
)
def test_unusable_columns_name_the_place_and_the_way_out(change, fragments) -> None:
    with pytest.raises(DataError) as caught:
        cleaned(**change)
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(("rows", "message"), [(0, "empty"), (29, "too few rows.*29 rows.*at least 30")])
def test_too_little_data_is_refused(rows, message) -> None:
    with pytest.raises(DataError, match=message):
        cleaned(passengers(rows))


def test_thirty_rows_are_enough() -> None:
    assert cleaned(passengers(30)).table.num_rows == 30


def test_column_names_that_occur_twice_are_named() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match=r"twice.*a"):
        clean(RawTable(table=table), section("t.csv", label="a"))
