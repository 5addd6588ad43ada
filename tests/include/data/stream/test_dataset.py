"""Streams on files and on S3, in this process and in others: always the same batches."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice

import numpy as np
import psutil
import pytest

from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError, StoreError
from include.core.store import ObjectStore
from include.data.stream.dataset import StreamDataset
from include.data.stream.loading import StreamPlan
from tests.support.streamed import SIDE, tar_set
from tests.support.waiting import eventually

PlanOf = Callable[..., StreamPlan]
ROWS = 27


def flat(batches: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


def taken(
    plan: StreamPlan, count: int, *, workers: int = 0, offset: int = 0, rank: int = 0, world: int = 1
) -> list[list[int]]:
    """Classes of the first batches; that each picture is the one of its class is checked on the way."""
    out = []
    dataset = StreamDataset(plan, workers=workers)
    stream = dataset.batches(offset=offset, batch_size=8, rank=rank, world=world)
    with closing(dataset), closing(stream):
        for batch in islice(stream, count):
            assert batch.inputs.shape == (len(batch.targets), SIDE, SIDE, 3)
            tones = batch.inputs.mean(axis=(1, 2, 3))
            assert np.abs(tones - 2 * batch.targets).max(initial=0) < 2
            out.append(batch.targets.tolist())
    return out


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_are_the_same_with_any_number_of_processes(
    workers: int, any_store: ObjectStore, plan_of: PlanOf
) -> None:
    plan = plan_of(any_store, tar_set(any_store))
    batches = taken(plan, 9, workers=workers)
    assert [len(batch) for batch in batches] == [8, 8, 8, 3, 8, 8, 8, 3, 8]
    assert sorted(flat(batches[:4])) == sorted(flat(batches[4:8])) == list(range(ROWS))
    assert batches == taken(plan, 9)


@pytest.mark.parametrize("offset", [0, 8, 24, 27, 27 * 1000 + 16])
def test_opening_at_an_offset_goes_on_as_if_never_stopped(
    offset: int, file_store: ObjectStore, plan_of: PlanOf
) -> None:
    plan = plan_of(file_store, tar_set(file_store))
    epoch, row = divmod(offset, ROWS)
    whole = taken(plan, 4, offset=epoch * ROWS)
    assert taken(plan, 1, offset=offset) == [whole[row // 8]]


@pytest.mark.parametrize("world", [2, 3, 5])
def test_ranks_share_each_global_batch(world: int, file_store: ObjectStore, plan_of: PlanOf) -> None:
    plan = plan_of(file_store, tar_set(file_store))
    parts = [taken(plan, 5, rank=rank, world=world) for rank in range(world)]
    for step, whole in enumerate(taken(plan, 5)):
        assert flat(part[step] for part in parts) == whole
        sizes = [len(part[step]) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_only_shards_near_the_offset_are_read(s3_store: ObjectStore, plan_of: PlanOf) -> None:
    plan = plan_of(s3_store, tar_set(s3_store), cache_bytes=80_000)
    order = plan.order()
    block = order.block_at(5, 20)
    needed = {plan.shards[n].key for n in order.block_shards(5, block)}
    for shard in plan.shards:
        if shard.key not in needed:
            s3_store.delete(shard.key)
    rows = order.rows_at(5, 20, 22)
    (batch,) = taken(replace(plan, cache_bytes=plan.bytes_of_a_block), 1, offset=5 * ROWS + 20, world=4)
    assert len(batch) == 1
    assert len(rows[0]) == 2


@pytest.mark.parametrize(("damage", "workers"), [("missing", 0), ("cut", 0), ("changed", 0), ("changed", 1)])
def test_a_bad_shard_is_named_with_what_was_found(
    damage: str, workers: int, any_store: ObjectStore, plan_of: PlanOf
) -> None:
    manifest = tar_set(any_store)
    broken = _break(any_store, manifest, 2, damage)
    with pytest.raises(DataError) as caught:
        taken(plan_of(any_store, manifest), 4, workers=workers)
    assert any_store.uri(broken) in str(caught.value)
    assert manifest.shards[2].sha256 in str(caught.value)


def _break(store: ObjectStore, manifest: DatasetManifest, number: int, damage: str) -> str:
    key = manifest.shards[number].key
    data = store.get(key)
    assert data is not None
    if damage == "missing":
        store.delete(key)
    else:
        store.put(key, data[:-600] if damage == "cut" else data[:700] + b"!" + data[701:])
    return key


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_of_the_block_stand_in_for_a_skipped_shard(workers: int, any_store: ObjectStore, plan_of: PlanOf) -> None:
    manifest = tar_set(any_store)
    plan = plan_of(any_store, manifest, skip_bad=True, block_shards=3)
    whole = taken(plan, 4)
    broken = _break(any_store, manifest, 2, "cut")
    for path in plan.cache.glob("?" * 64):
        path.unlink()
    dataset = StreamDataset(plan, workers=workers)
    stream = dataset.batches(offset=0, batch_size=8)
    with closing(stream):
        found = [batch.targets.tolist() for batch in islice(stream, 4)]
    lost = set(range(8, 15))
    assert [len(batch) for batch in found] == [8, 8, 8, 3]
    assert not lost & set(flat(found))
    assert all(a == b or b in lost for a, b in zip(flat(found), flat(whole), strict=True))
    assert list(dataset.skipped) == [broken]
    assert "damaged" in dataset.skipped[broken]


def test_a_block_without_any_good_shard_is_an_error(file_store: ObjectStore, plan_of: PlanOf) -> None:
    manifest = tar_set(file_store)
    for number in range(len(manifest.shards)):
        _break(file_store, manifest, number, "missing")
    with pytest.raises(DataError, match="no shard of a block"):
        taken(plan_of(file_store, manifest, skip_bad=True), 1)


def test_a_cache_smaller_than_a_block_is_refused_at_once(s3_store: ObjectStore, plan_of: PlanOf) -> None:
    with pytest.raises(DataError, match="PLIMSOLL_SHARD_CACHE_BYTES"):
        StreamDataset(plan_of(s3_store, tar_set(s3_store), cache_bytes=10_000))


def test_an_empty_split_is_refused(file_store: ObjectStore, plan_of: PlanOf) -> None:
    with pytest.raises(DataError, match="no rows"):
        StreamDataset(plan_of(file_store, tar_set(file_store), split="test"))


def test_another_content_than_the_manifest_says_is_refused(file_store: ObjectStore, plan_of: PlanOf) -> None:
    manifest = tar_set(file_store)
    shards = (replace(manifest.shards[0], rows=4), *manifest.shards[1:])
    with pytest.raises(DataError, match="another number of rows"):
        taken(plan_of(file_store, replace(manifest, shards=shards)), 4)


def loaders() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "include.data.stream.worker" in p.cmdline()]


def test_processes_wait_for_the_next_iterator_and_end_with_the_dataset(
    file_store: ObjectStore, plan_of: PlanOf
) -> None:
    dataset = StreamDataset(plan_of(file_store, tar_set(file_store)), workers=2)
    stream = dataset.batches(offset=0, batch_size=8)
    first = next(stream).targets.tolist()
    running = {loader.pid for loader in loaders()}
    assert len(running) == 2
    stream.close()
    for offset, batch_size in ((8, 4), (0, 8)):
        stream = dataset.batches(offset=offset, batch_size=batch_size)
        found = next(stream).targets.tolist()
        assert {loader.pid for loader in loaders()} == running
        stream.close()
    assert found == first
    with closing(dataset.batches(offset=0, batch_size=9)) as stream:
        next(stream)
        assert len({loader.pid for loader in loaders()} - running) == 2
    del stream, dataset
    assert loaders() == []


def test_batches_that_are_ready_are_counted(file_store: ObjectStore, plan_of: PlanOf) -> None:
    dataset = StreamDataset(plan_of(file_store, tar_set(file_store)), workers=1)
    assert dataset.queue_depth() is None
    batches = dataset.batches(offset=0, batch_size=4)
    next(batches)
    # Two are ordered, one of them is in use.
    eventually(lambda: dataset.queue_depth() == 1)
    next(batches)
    eventually(lambda: dataset.queue_depth() == 1)
    batches.close()
    assert dataset.queue_depth() is None
    dataset.close()


def test_a_killed_loader_is_told(file_store: ObjectStore, plan_of: PlanOf) -> None:
    stream = StreamDataset(plan_of(file_store, tar_set(file_store)), workers=1).batches(offset=0, batch_size=8)
    next(stream)
    (loader,) = loaders()
    os.kill(loader.pid, signal.SIGKILL)
    with pytest.raises(StoreError, match="loader process ended"):
        list(islice(stream, 10))


def test_a_signal_to_the_group_does_not_end_the_loaders(file_store: ObjectStore, plan_of: PlanOf) -> None:
    stream = StreamDataset(plan_of(file_store, tar_set(file_store)), workers=1).batches(offset=0, batch_size=8)
    with closing(stream):
        next(stream)
        (loader,) = loaders()
        os.kill(loader.pid, signal.SIGTERM)
        time.sleep(0.05)
        assert len(list(islice(stream, 10))) == 10
