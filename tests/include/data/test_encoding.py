"""What a model sees, and how damage is reported."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.core.contracts.dataset import DatasetManifest, Feature
from include.core.errors import DataError
from include.data.encoding import encode_features, encode_frame, encode_labels, load_split, read_manifest
from include.data.prepare import prepare_dataset
from tests.support.jobs import workload

FEATURES = (
    Feature(name="age", kind="numeric", mean=30.0, std=10.0),
    Feature(name="port", kind="categorical", categories=("east", "west")),
)


def manifest(features=FEATURES, shape=(3,)) -> DatasetManifest:
    return DatasetManifest(
        fingerprint="f", task="classification", label="y", classes=("0", "1"), features=features, input_shape=shape,
        shards=(),
    )  # fmt: skip


def test_numbers_are_standardised_and_text_becomes_one_hot() -> None:
    x, y = encode_frame({"age": [40, None], "port": ["west", "moon"], "y": ["1", 0]}, manifest())
    assert x.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert (x.dtype, y.tolist(), y.dtype) == (np.float32, [1, 0], np.int64)


def test_numeric_columns_fill_an_image_row_by_row() -> None:
    features = tuple(Feature(name=f"p{i}", kind="numeric") for i in range(4))
    x = encode_features({f"p{i}": [i] for i in range(4)}, manifest(features, (1, 2, 2)))
    assert x.tolist() == [[[[0.0, 1.0], [2.0, 3.0]]]]


def test_pixels_are_scaled_and_may_come_nested() -> None:
    pixels = manifest((Feature(name="pixels", kind="pixels"),), (1, 2, 2))
    flat = encode_features({"pixels": [[0, 51, 102, 255]]}, pixels)
    nested = encode_features({"pixels": [[[[0, 51], [102, 255]]]]}, pixels)
    assert flat.tolist() == nested.tolist()
    assert flat.reshape(-1).tolist() == pytest.approx([0.0, 0.2, 0.4, 1.0])
    with pytest.raises(DataError, match="4 numbers from 0 to 255"):
        encode_features({"pixels": [[1, 2, 3]]}, pixels)


def test_no_rows_give_no_rows() -> None:
    assert encode_features({"age": [], "port": []}, manifest()).shape == (0, 3)


@settings(max_examples=80, deadline=None)
@given(
    ages=st.lists(st.one_of(st.none(), st.floats(-1e30, 1e30), st.integers(-(10**9), 10**9)), min_size=1, max_size=20)
)
def test_encoding_is_always_finite_and_row_by_row(ages) -> None:
    columns = {"age": ages, "port": ["west"] * len(ages)}
    x = encode_features(columns, manifest())
    assert np.isfinite(x).all()
    single = [encode_features({"age": [age], "port": ["west"]}, manifest())[0].tolist() for age in ages]
    assert x.tolist() == single


@pytest.mark.parametrize(
    ("columns", "fragments"),
    [
        ({"age": [1]}, ["input columns are missing", "add port"]),
        ({"age": [1, 2], "port": ["west"]}, ["different lengths"]),
        ({"age": ["old"], "port": ["west"]}, ["'age'", "old", "numbers or null"]),
        ({"age": [math.inf], "port": ["west"]}, ["'age'", "infinite"]),
        ({"age": [[1, 2]], "port": ["west"]}, ["'age'", "one finite number"]),
    ],
)
def test_columns_that_cannot_be_encoded_are_named(columns, fragments) -> None:
    with pytest.raises(DataError) as caught:
        encode_features(columns, manifest())
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_an_unknown_label_and_an_absent_label_column_are_named() -> None:
    with pytest.raises(DataError, match=r"'y'.*2.*0, 1"):
        encode_labels(["0", "2"], manifest())
    with pytest.raises(DataError, match="label column is missing"):
        encode_frame({"age": [1], "port": ["west"]}, manifest())


def test_damaged_and_missing_shards_are_named(any_store) -> None:
    made = prepare_dataset(store=any_store, data=workload("titanic").data, roots=())
    shard = next(s for s in made.manifest.shards if s.split == "test")
    data = any_store.get(shard.key)
    any_store.put(shard.key, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DataError, match="missing or damaged") as caught:
        load_split(any_store, made.manifest, "test")
    assert shard.key in str(caught.value)
    assert load_split(any_store, made.manifest, "train")[0].shape == (made.ref.rows["train"], 7)
    any_store.delete(shard.key)
    with pytest.raises(DataError, match="nothing"):
        load_split(any_store, made.manifest, "test")


def test_an_absent_and_a_foreign_manifest_are_refused(file_store) -> None:
    with pytest.raises(DataError, match="no such dataset"):
        read_manifest(file_store, file_store.uri("datasets/x/manifest.json"))
    file_store.put_json("datasets/x/manifest.json", {"rows": 3})
    with pytest.raises(DataError, match="not a dataset manifest"):
        read_manifest(file_store, file_store.uri("datasets/x/manifest.json"))


def test_encoding_imports_no_heavy_library() -> None:
    code = (
        "import sys; from include.data.encoding import encode_features;"
        "print([m for m in ('pandas', 'torch', 'sklearn', 'pyarrow', 'great_expectations') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
