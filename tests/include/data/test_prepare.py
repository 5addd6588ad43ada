"""Datasets are made once, from content; what cannot be used leaves nothing behind."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from include.core.contracts.dataset import SPLITS
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data import prepare
from include.data.encoding import load_split, read_manifest
from include.data.prepare import prepare_dataset
from include.data.quality import read_rows
from tests.support.jobs import workload
from tests.support.streamed import tar
from tests.support.tables import passengers, picture, section, write_pictures, write_table


@pytest.fixture
def make(tmp_path, file_store):
    """Prepare a table written under the data root."""

    def run(columns=None, name="t.csv", store=file_store, **settings):
        write_table(columns or passengers(), tmp_path / "data" / name)
        return prepare_dataset(store=store, data=section(name, **settings), roots=(tmp_path / "data",))

    return run


def rows_by_split(store: ObjectStore, manifest) -> dict[str, set[float]]:
    table = read_rows(store, manifest).to_pydict()
    return {s: {f for f, split in zip(table["fare"], table["split"], strict=True) if split == s} for s in SPLITS}


def test_the_same_content_is_found_under_any_name(make) -> None:
    first, again = make(), make(name="copy.csv")
    assert (first.found, again.found) == (False, True)
    assert first.ref == again.ref


@pytest.mark.parametrize(
    "settings",
    [{"drop": ("alone",)}, {"split": {"validation": 0.2, "test": 0.2}}, {"label": "port", "drop": ("survived",)}],
)
def test_a_setting_that_shapes_the_rows_makes_another_dataset(make, settings) -> None:
    assert make().ref.fingerprint != make(**settings).ref.fingerprint


@pytest.mark.parametrize("settings", [{"max_null_share": 0.1}, {"expectations": [{"type": "expect_column_to_exist"}]}])
def test_a_setting_that_only_checks_the_rows_does_not(make, settings) -> None:
    make()
    assert make(**settings).found


def test_a_changed_cell_makes_another_dataset_and_moves_no_other_row(make, file_store) -> None:
    columns = passengers()
    first = make(columns)
    columns["fare"][5] = 999.0
    second = make(columns)
    assert (second.found, first.ref.fingerprint != second.ref.fingerprint) == (False, True)
    before, after = (rows_by_split(file_store, p.manifest) for p in (first, second))
    for split in SPLITS:
        assert before[split] - {5 / 7} == after[split] - {999.0}


def test_row_order_does_not_move_rows_between_splits(make, file_store) -> None:
    columns = passengers()
    turned = {name: values[::-1] for name, values in columns.items()}
    before, after = (rows_by_split(file_store, make(c).manifest) for c in (columns, turned))
    assert before == after


def test_equal_inputs_never_stand_in_two_splits(make, file_store) -> None:
    columns = {name: values[:40] * 3 for name, values in passengers().items()}
    columns["survived"] = [i % 2 for i in range(120)]  # equal inputs with different labels too
    splits = rows_by_split(file_store, make(columns).manifest)
    assert not splits["train"] & splits["test"]
    assert not splits["train"] & splits["validation"]
    assert not splits["validation"] & splits["test"]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl", "t.parquet", "t.orc", "t.feather"])
def test_every_format_gives_the_same_arrays_as_csv(make, file_store, name) -> None:
    reference, other = make(), make(name=name)
    for split in SPLITS:
        for left, right in zip(
            load_split(file_store, reference.manifest, split),
            load_split(file_store, other.manifest, split),
            strict=True,
        ):
            assert left.tolist() == right.tolist()


def test_many_shards_on_both_stores_give_the_rows_of_one(make, any_store, monkeypatch) -> None:
    whole = make(store=any_store)
    x, y = load_split(any_store, whole.manifest, "train")
    for key, _ in list(any_store.list("datasets")):
        any_store.delete(key)
    monkeypatch.setattr(prepare, "MOST_ROWS_PER_SHARD", 10)
    sharded = make(store=any_store)
    manifest = read_manifest(any_store, sharded.ref.uri)
    assert len(manifest.shards) > 10
    assert all(shard.rows <= 10 for shard in manifest.shards)
    x_sharded, y_sharded = load_split(any_store, manifest, "train")
    assert (x.tolist(), y.tolist()) == (x_sharded.tolist(), y_sharded.tolist())


def test_an_image_tree_becomes_pixels(tmp_path, file_store) -> None:
    write_pictures(tmp_path / "data" / "animals")
    (tmp_path / "data" / "animals" / "README.md").write_text("about")
    made = prepare_dataset(store=file_store, data=section("animals", label="animal"), roots=(tmp_path / "data",))
    x, y = load_split(file_store, made.manifest, "train")
    assert made.manifest.input_shape == (3, 6, 6)
    assert x.shape == (made.ref.rows["train"], 3, 6, 6)
    assert (0.0 <= x.min() < 0.1, 0.9 < x.max() <= 1.0) == (True, True)
    assert (made.manifest.classes, set(y)) == (("cat", "dog"), {0, 1})
    assert made.manifest.dropped_rows == {"not an image": 1}
    assert "cat/001.png" in read_rows(file_store, made.manifest)["row_id"].to_pylist()


@pytest.mark.parametrize("uri", ["set", "set/0.tar"])
def test_archives_on_disk_and_on_s3_make_the_same_dataset(uri, tmp_path, s3_store, file_store) -> None:
    members = []
    for number in range(40):
        members += [(f"{number:03d}.png", picture(number)), (f"{number:03d}.cls", b"cat" if number % 2 else b"dog")]
    archives = {"set/0.tar": tar(members[:70])} | ({"set/1.tar": tar(members[70:])} if uri == "set" else {})
    for name, data in archives.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        s3_store.put(name, data)
    local = prepare_dataset(store=file_store, data=section(uri, label="animal"), roots=(tmp_path / "data",))
    remote = prepare_dataset(store=s3_store, data=section(f"{s3_store.url}/{uri}", label="animal"), roots=())
    assert local.ref.fingerprint == remote.ref.fingerprint
    assert local.manifest.classes == ("cat", "dog")
    assert sum(remote.ref.rows.values()) == (40 if uri == "set" else 35)


def test_a_source_on_s3_is_read_with_the_environment_s_credentials(tmp_path, s3_store, file_store) -> None:
    s3_store.put("raw/t.parquet", write_table(passengers(), tmp_path / "t.parquet").read_bytes())
    made = prepare_dataset(store=file_store, data=section(f"{s3_store.url}/raw/t.parquet"), roots=())
    assert sum(made.ref.rows.values()) == 120


def test_statistics_come_from_the_training_split_alone(make, file_store) -> None:
    made = make()
    age = next(f for f in made.manifest.features if f.name == "age")
    table = read_rows(file_store, made.manifest).to_pydict()
    ages = [a for a, s in zip(table["age"], table["split"], strict=True) if s == "train" and a is not None]
    assert age.mean == pytest.approx(sum(ages) / len(ages))
    everyone = [a for a in table["age"] if a is not None]
    assert age.mean != pytest.approx(sum(everyone) / len(everyone))


def test_constant_and_empty_columns_have_a_scale_of_one(make) -> None:
    made = make({**passengers(), "same": [0.1] * 120, "none": pa.nulls(120, pa.float64())}, name="t.parquet")
    features = {f.name: f for f in made.manifest.features}
    assert (features["same"].std, features["none"].mean, features["none"].std) == (1.0, 0.0, 1.0)


def test_a_lost_shard_makes_the_dataset_anew(make, file_store) -> None:
    first = make()
    file_store.delete(first.manifest.shards[0].key)
    second = make()
    assert (second.found, second.ref) == (False, first.ref)
    assert load_split(file_store, second.manifest, "train")[1].size == first.ref.rows["train"]


def test_the_writer_that_commits_second_takes_the_first_one_s_dataset(make, file_store, monkeypatch) -> None:
    first = make()
    monkeypatch.setattr(prepare, "find_dataset", lambda store, fingerprint: None)
    second = make()
    assert (second.found, second.manifest) == (True, first.manifest)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "absent"}, "label column is absent"),
        ({"image_shape": [1, 2, 2]}, r"data\.image_shape.*4 columns, 1 of them not numeric"),
        ({"image_shape": [1, 2, 2], "drop": ["port"]}, r"data\.image_shape.*3 columns.*4 numeric columns"),
        ({"split": {"validation": 0.001, "test": 0.2}}, "validation split is empty"),
    ],
)
def test_what_cannot_be_prepared_leaves_nothing(make, file_store, settings, message) -> None:
    with pytest.raises(DataError, match=message):
        make(**settings)
    assert not list(file_store.list("datasets"))


def test_a_class_that_is_absent_from_training_is_named(make, file_store) -> None:
    columns = passengers()
    made = make(columns)
    table = read_rows(file_store, made.manifest).to_pydict()
    held_out = next(i for i, split in zip(table["row_id"], table["split"], strict=True) if split == "test")
    columns["survived"][int(held_out)] = 7
    with pytest.raises(DataError, match=r"'7'.*several different rows"):
        make(columns)


def test_the_shipped_workloads_are_prepared_with_all_their_rows(file_store) -> None:
    for name, rows in (("digits", 1797), ("titanic", 1313)):
        made = prepare_dataset(store=file_store, data=workload(name).data, roots=())
        assert sum(made.ref.rows.values()) == rows
        assert min(made.ref.rows.values()) > rows * 0.08
        assert dataclasses.asdict(read_manifest(file_store, made.ref.uri)) == dataclasses.asdict(made.manifest)
