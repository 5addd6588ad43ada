from __future__ import annotations

import time

import numpy as np
import pytest

from include.data.stream.order import BlockOrder, shuffled

SIZES = [5, 3, 7, 4, 6, 2, 1]


def order(seed: int = 1, block_shards: int = 2) -> BlockOrder:
    return BlockOrder(SIZES, seed=seed, block_shards=block_shards)


def pairs(of: BlockOrder, epoch: int, begin: int, end: int) -> list[tuple[int, int]]:
    shards, rows = of.rows_at(epoch, begin, end)
    return list(zip(shards.tolist(), rows.tolist(), strict=True))


@pytest.mark.parametrize("block_shards", [1, 2, 3, 7, 50])
def test_each_epoch_has_each_row_once(block_shards: int) -> None:
    everything = {(shard, row) for shard, size in enumerate(SIZES) for row in range(size)}
    for epoch in range(3):
        seen = pairs(order(block_shards=block_shards), epoch, 0, sum(SIZES))
        assert len(seen) == sum(SIZES)
        assert set(seen) == everything


def test_any_part_can_be_named_without_the_others() -> None:
    whole = pairs(order(), 1, 0, 28)
    for begin in range(0, 28, 3):
        assert pairs(order(), 1, begin, min(begin + 9, 28)) == whole[begin : begin + 9]


def test_the_order_is_fixed_for_ever() -> None:
    # A change here makes every resumed training see other data: never change these numbers.
    assert shuffled(8, 1, 0, "rows").tolist() == [2, 0, 6, 3, 7, 5, 1, 4]
    assert pairs(order(), 0, 0, 3) == [(5, 1), (4, 3), (4, 0)]


def test_epochs_and_seeds_differ() -> None:
    orders = [pairs(order(seed), epoch, 0, 28) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_rows_are_mixed_within_blocks_of_shards() -> None:
    of = order(block_shards=3)
    first = of.block_shards(0, 0).tolist()
    size = sum(SIZES[shard] for shard in first)
    block = pairs(of, 0, 0, size)
    assert {shard for shard, _ in block} == set(first)
    assert [shard for shard, _ in block] != sorted(shard for shard, _ in block)
    assert of.block_at(0, size - 1) == 0
    assert of.block_at(0, size) == 1


def test_a_permutation_is_even() -> None:
    firsts = [int(shuffled(10, seed)[0]) for seed in range(2000)]
    assert np.bincount(firsts, minlength=10).min() > 140


def test_resume_costs_the_same_however_far_the_training_is() -> None:
    far = BlockOrder([1000] * 1000, seed=1)
    began = time.process_time()
    far.rows_at(10_000_000, 999_900, 1_000_000)
    assert time.process_time() - began < 0.5
