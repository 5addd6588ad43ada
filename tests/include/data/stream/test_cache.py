from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from include.core.contracts.dataset import Shard
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.data.stream.cache import ShardCache
from tests.support.streamed import put_shard


@pytest.fixture
def cache(tmp_path: Path) -> ShardCache:
    return ShardCache(tmp_path / "cache", budget_bytes=3000)


def shards(store: ObjectStore, count: int, size: int = 1000) -> list[Shard]:
    return [put_shard(store, f"d/{n}", bytes([n]) * size, rows=1) for n in range(count)]


def kept(cache: ShardCache) -> set[str]:
    return {path.name for path in cache.folder.iterdir() if len(path.name) == 64}


def use(cache: ShardCache, store: ObjectStore, shard: Shard) -> bytes:
    held = cache.open(store, shard)
    try:
        return bytes(held.map())
    finally:
        held.close()


def test_a_shard_is_the_same_wherever_it_comes_from(any_store: ObjectStore, cache: ShardCache) -> None:
    for number, shard in enumerate(shards(any_store, 2)):
        assert use(cache, any_store, shard) == bytes([number]) * 1000


def test_a_cached_shard_is_not_fetched_again(s3_store: ObjectStore, cache: ShardCache) -> None:
    (shard,) = shards(s3_store, 1)
    use(cache, s3_store, shard)
    s3_store.delete(shard.key)
    assert use(cache, s3_store, shard) == b"\0" * 1000


def test_the_least_recently_used_goes_first_and_the_budget_holds(s3_store: ObjectStore, cache: ShardCache) -> None:
    made = shards(s3_store, 5)
    for number in (0, 1, 2, 0, 3):
        use(cache, s3_store, made[number])
    assert kept(cache) == {made[n].sha256 for n in (0, 2, 3)}
    use(cache, s3_store, made[4])
    assert kept(cache) == {made[n].sha256 for n in (0, 3, 4)}


def test_a_shard_in_use_by_another_process_is_never_removed(s3_store: ObjectStore, cache: ShardCache) -> None:
    made = shards(s3_store, 5)
    use(cache, s3_store, made[0])
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl,sys; f=open(sys.argv[1]); fcntl.flock(f, 1); print(flush=True); input()",
         str(cache.folder / made[0].sha256)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    for shard in made[1:]:
        use(cache, s3_store, shard)
    assert made[0].sha256 in kept(cache)
    holder.communicate(b"\n")
    for shard in made[1:]:
        use(cache, s3_store, shard)
    assert made[0].sha256 not in kept(cache)


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_cached_file_is_fetched_again(damage: str, s3_store: ObjectStore, cache: ShardCache) -> None:
    (shard,) = shards(s3_store, 1)
    use(cache, s3_store, shard)
    path = cache.folder / shard.sha256
    path.write_bytes(b"\0" * 500 if damage == "cut" else b"\1" * 1000)
    assert use(cache, s3_store, shard) == b"\0" * 1000


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"\1" * 1000, "1000 bytes"), (b"\0" * 9, "9 bytes"), (b"\0" * 1001, "more than"), (None, "nothing")],
)
def test_a_damaged_or_missing_shard_is_named(
    content: bytes | None, found: str, any_store: ObjectStore, cache: ShardCache
) -> None:
    (shard,) = shards(any_store, 1)
    if content is None:
        any_store.delete(shard.key)
    else:
        any_store.put(shard.key, content)
    with pytest.raises(DataError) as caught:
        use(cache, any_store, shard)
    for text in (
        any_store.uri(shard.key),
        shard.sha256,
        found.replace("more than", "1001" if any_store.url[0] == "f" else "more than"),
    ):
        assert text in str(caught.value)
    assert not cache.folder.exists() or not kept(cache)


def test_a_digest_that_is_a_path_is_refused(s3_store: ObjectStore, cache: ShardCache) -> None:
    (shard,) = shards(s3_store, 1)
    with pytest.raises(DataError, match="no digest"):
        cache.open(s3_store, replace(shard, sha256="../../x"))


def test_what_a_dead_writer_left_does_not_count(s3_store: ObjectStore, cache: ShardCache) -> None:
    made = shards(s3_store, 3)
    cache.folder.mkdir()
    left = cache.folder / f"{'0' * 64}.part"
    left.write_bytes(b"x" * 2900)
    for shard in made:
        use(cache, s3_store, shard)
    assert not left.exists()
    assert kept(cache) == {shard.sha256 for shard in made}


def test_many_readers_of_one_shard_fetch_it_once(
    s3_store: ObjectStore, cache: ShardCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shard,) = shards(s3_store, 1)
    fetched = []
    chunks = ObjectStore.chunks
    monkeypatch.setattr(ObjectStore, "chunks", lambda self, key: fetched.append(key) or chunks(self, key))
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: use(ShardCache(cache.folder, budget_bytes=3000), s3_store, shard), range(8)))
    assert set(found) == {b"\0" * 1000}
    assert fetched == [shard.key]


def test_nothing_is_left_of_a_download_that_failed(s3_store: ObjectStore, cache: ShardCache) -> None:
    (shard,) = shards(s3_store, 1)
    s3_store.put(shard.key, b"short")
    with pytest.raises(DataError):
        use(cache, s3_store, shard)
    assert [path.name for path in cache.folder.iterdir() if path.is_file()] == ["eviction.lock"]
    assert [path.name for path in (cache.folder / "locks").iterdir()] == [shard.sha256]


def test_a_full_disk_is_told_with_what_to_do(
    s3_store: ObjectStore, cache: ShardCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shard,) = shards(s3_store, 1)

    def full(self: ObjectStore, key: str) -> Iterator[bytes]:
        yield b"\0"
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "chunks", full)
        with pytest.raises(UserError, match="PLIMSOLL_SHARD_CACHE_BYTES"):
            use(cache, s3_store, shard)
    assert use(cache, s3_store, shard) == b"\0" * 1000
