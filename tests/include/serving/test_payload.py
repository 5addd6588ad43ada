from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from include.core.contracts.dataset import DatasetManifest, Feature
from include.serving.payload import MAX_ROWS, BadBodyError, parse_body
from tests.support.models import CLASSES, FEATURES, WIDTH

MANIFEST = DatasetManifest(
    fingerprint="toy",
    task="classification",
    label="animal",
    classes=CLASSES,
    features=FEATURES,
    input_shape=(WIDTH,),
    shards=(),
)
RECORD = {"height": 3.0, "weight": None, "colour": "white"}
ENCODED = [[1.0, 0.0, 0.0, 1.0]]


def parse(body: Any) -> list[list[float]]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_body(raw, MANIFEST).tolist()


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": ENCODED},
        {"inputs": {"x": ENCODED}},
        {"inputs": [[1, 0, 0, 1]]},
        {"dataframe_records": [RECORD]},
        {"dataframe_records": [{**RECORD, "animal": "dog", "more": [1]}]},
        {"dataframe_split": {"columns": ["colour", "height", "weight"], "data": [["white", 3, None]]}},
        {"dataframe_split": {"columns": list(RECORD), "data": [list(RECORD.values())], "index": [7]}},
    ],
)
def test_all_formats_give_the_same_rows(body: dict[str, Any]) -> None:
    assert parse(body) == ENCODED


def test_unknown_categories_are_all_zero() -> None:
    assert parse({"dataframe_records": [{**RECORD, "colour": "green"}]}) == [[1.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"inputs": [[NaN, 0, 0, 0]]}', "NaN is not a number"),
        (b'{"inputs": [[-Infinity, 0, 0, 0]]}', "Infinity is not a number"),
        (b'{"inputs": [[1e39, 0, 0, 0]]}', "not finite"),
        (b'{"inputs": [[1e999, 0, 0, 0]]}', "not finite"),
        ([1, 2], "must be an object"),
        ({}, "found none"),
        ({"inputs": ENCODED, "dataframe_records": [RECORD]}, "exactly one of"),
        ({"instances": ENCODED}, r"unknown keys \['instances'\]"),
        ({"inputs": [[1, 2, 3]]}, r"shape \[1, 3\]; wanted: \[rows, 4\]"),
        ({"inputs": [1, 2, 3, 4]}, r"shape \[4\]; wanted: \[rows, 4\]"),
        ({"inputs": [[1, 2, 3, 4], [1]]}, "all of one shape"),
        ({"inputs": [["1", "2", "3", "4"]]}, "numbers only"),
        ({"inputs": [[None, 0, 0, 0]]}, "numbers only"),
        ({"inputs": [[True, False, True, False]]}, "numbers only"),
        ({"inputs": {"a": ENCODED, "b": ENCODED}}, "one input"),
        ({"inputs": []}, "shape"),
        ({"inputs": [[0] * WIDTH] * (MAX_ROWS + 1)}, f"at most {MAX_ROWS}"),
        ({"dataframe_records": []}, "no rows"),
        ({"dataframe_records": RECORD}, "list of objects"),
        ({"dataframe_records": [{"height": 1}]}, "missing columns: weight, colour"),
        ({"dataframe_records": [RECORD, {"height": 1}]}, r"records\[1\] has other columns.*colour"),
        ({"dataframe_records": [{**RECORD, "height": "tall"}]}, "'height' is numeric; found 'tall'"),
        ({"dataframe_records": [{**RECORD, "height": [1]}]}, "'height' is numeric"),
        ({"dataframe_records": [{**RECORD, "colour": {}}]}, "'colour' is categorical"),
        (b'{"dataframe_records": [{"height": 1e999, "weight": 1, "colour": "white"}]}', "height"),
        ({"dataframe_records": [{**RECORD, "height": 10**400}]}, "cannot be encoded"),
        ({"dataframe_records": [{**RECORD, "height": 1e300}]}, "not finite"),
        ({"dataframe_split": [[1]]}, "'columns' and 'data'"),
        ({"dataframe_split": {"columns": ["a"], "data": [[1]], "extra": 1}}, "'columns' and 'data'"),
        ({"dataframe_split": {"columns": ["a", "a"], "data": [[1, 2]]}}, "twice"),
        ({"dataframe_split": {"columns": [1], "data": [[1]]}}, "column names"),
        ({"dataframe_split": {"columns": ["a"], "data": [[1, 2]]}}, "1 values each"),
        ({"dataframe_split": {"columns": ["a"], "data": []}}, "no rows"),
    ],
)
def test_bad_bodies_say_what_is_wrong(body: Any, message: str) -> None:
    with pytest.raises(BadBodyError, match=message):
        parse(body)


def test_many_missing_columns_are_counted() -> None:
    features = tuple(Feature(name=f"pixel_{number}", kind="numeric") for number in range(64))
    manifest = DatasetManifest(
        fingerprint="d", task="classification", label="digit", classes=("0", "1"), features=features,
        input_shape=(1, 8, 8), shards=(),
    )  # fmt: skip
    with pytest.raises(BadBodyError, match=r"pixel_0, .*pixel_9 and 54 more"):
        parse_body(b'{"dataframe_records": [{"x": 1}]}', manifest)


def test_pixels_come_as_lists() -> None:
    manifest = DatasetManifest(
        fingerprint="i", task="classification", label="kind", classes=("a", "b"),
        features=(Feature(name="pixels", kind="pixels"),), input_shape=(1, 1, 2), shards=(),
    )  # fmt: skip
    body = json.dumps({"dataframe_records": [{"pixels": [0, 255]}]}).encode()
    assert parse_body(body, manifest).tolist() == [[[[0.0, 1.0]]]]
    for wrong in (5, "ab", [1, 2, 3], ["a", "b"], [[1], [2, 3]]):
        with pytest.raises(BadBodyError, match="pixels"):
            parse_body(json.dumps({"dataframe_records": [{"pixels": wrong}]}).encode(), manifest)


def test_rows_are_float32() -> None:
    assert parse_body(json.dumps({"inputs": ENCODED}).encode(), MANIFEST).dtype == np.float32
