from __future__ import annotations

from itertools import islice

import pytest
import torch

from include.training.batches import Batch, Examples, MemorySource
from include.training.data_position import DataOrder, part_of


def source(rows: int = 10, seed: int = 1) -> MemorySource:
    labels = torch.arange(rows)
    return MemorySource(Examples(inputs=labels[:, None].float(), labels=labels), seed=seed)


def first(count: int, *, offset: int = 0, batch_size: int = 4, rank: int = 0, world: int = 1) -> list[Batch]:
    return list(islice(source().batches(offset=offset, batch_size=batch_size, rank=rank, world=world), count))


def test_the_order_is_that_of_the_data_position() -> None:
    order, offset = DataOrder(rows=10, batch_size=4, seed=1), 0
    for batch in first(9):
        assert batch.targets.tolist() == order.batch_at(offset).tolist()
        assert batch.inputs[:, 0].tolist() == batch.targets.tolist()
        offset += batch.rows_global


def test_the_last_batch_of_an_epoch_is_short() -> None:
    assert [batch.rows_global for batch in first(6)] == [4, 4, 2, 4, 4, 2]
    assert source().steps_per_epoch(4) == 3


@pytest.mark.parametrize("offset", [4, 8, 10, 24])
def test_opening_at_an_offset_goes_on_as_if_never_stopped(offset: int) -> None:
    straight = {}
    position = 0
    for batch in first(12):
        straight[position] = batch.targets.tolist()
        position += batch.rows_global
    assert first(1, offset=offset)[0].targets.tolist() == straight[offset]


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
def test_ranks_share_each_global_batch_evenly(world: int) -> None:
    whole = first(3)
    parts = [first(3, rank=rank, world=world) for rank in range(world)]
    for step, batch in enumerate(whole):
        mine = [part[step].targets for part in parts]
        assert torch.equal(torch.cat(mine), batch.targets)
        assert max(map(len, mine)) - min(map(len, mine)) <= 1
        assert all(part[step].rows_global == batch.rows_global for part in parts)


def test_parts_cover_all_rows_in_order() -> None:
    assert [part_of(10, rank=rank, world=4) for rank in range(4)] == [
        slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 10)
    ]  # fmt: skip
