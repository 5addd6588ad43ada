"""What stands where a dataset's manifest should be."""

from __future__ import annotations

import pytest

from include.core.errors import DataError
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.data.encoding import read_shard
from include.data.manifest import read_manifest
from tests.support.training import write_dataset


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no JSON.*found: b''"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", r"not a dataset manifest of this version \| where: .*/m.json \| found: \(file\)"),
        (b"{}", "not a dataset manifest of this version.*found: fingerprint: "),
    ],
)
def test_what_is_no_manifest_is_named(file_store: ObjectStore, data: bytes, message: str) -> None:
    file_store.put("datasets/x/m.json", data)
    with pytest.raises(DataError, match=message) as caught:
        read_manifest(file_store, file_store.uri("datasets/x/m.json"))
    assert file_store.uri("datasets/x/m.json") in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_shard_elsewhere_is_refused_with_the_manifest_that_names_it(file_store: ObjectStore) -> None:
    raw = to_json(read_manifest(file_store, write_dataset(file_store).uri))
    raw["shards"][0]["key"] = "../../etc/passwd"
    file_store.put_json("datasets/x/m.json", raw)
    with pytest.raises(DataError, match=r"a shard elsewhere \| where: .*/m.json"):
        read_manifest(file_store, file_store.uri("datasets/x/m.json"))


def test_shard_with_other_rows_than_promised_is_refused(file_store: ObjectStore) -> None:
    raw = to_json(read_manifest(file_store, write_dataset(file_store).uri))
    raw["shards"][0]["rows"] = 1_000_000
    file_store.put_json("datasets/x/m.json", raw)
    shard = read_manifest(file_store, file_store.uri("datasets/x/m.json")).shards[0]
    with pytest.raises(DataError, match=r"found: 100 rows.*allowed: 1000000 rows"):
        read_shard(file_store, shard)


def test_shard_that_is_a_folder_is_missing(file_store: ObjectStore) -> None:
    shard = read_manifest(file_store, write_dataset(file_store).uri).shards[0]
    file_store.delete(shard.key)
    file_store.put(f"{shard.key}/inside", b"x")
    with pytest.raises(DataError, match=r"missing or damaged.*found: nothing"):
        read_shard(file_store, shard)
    with pytest.raises(FileNotFoundError):
        list(file_store.chunks(shard.key))
