from __future__ import annotations

import time

import pytest
import torch

from include.training.data_position import DataOrder


def order(rows: int = 10, batch_size: int = 4, seed: int = 1) -> DataOrder:
    return DataOrder(rows=rows, batch_size=batch_size, seed=seed)


def batches(data: DataOrder, count: int, offset: int = 0) -> list[list[int]]:
    out = []
    for _ in range(count):
        rows = data.batch_at(offset).tolist()
        out.append(rows)
        offset += len(rows)
    return out


@pytest.mark.parametrize(("rows", "batch_size"), [(10, 4), (8, 4), (3, 5), (1, 1), (7, 1)])
def test_each_epoch_sees_each_row_once(rows: int, batch_size: int) -> None:
    data = order(rows, batch_size)
    seen = batches(data, 3 * data.steps_per_epoch)
    for epoch in range(3):
        part = seen[epoch * data.steps_per_epoch : (epoch + 1) * data.steps_per_epoch]
        assert sorted(row for batch in part for row in batch) == list(range(rows))
        assert all(len(batch) == batch_size for batch in part[:-1])


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    data = order(50, 50)
    assert data.batch_at(0).tolist() != data.batch_at(50).tolist()
    assert data.batch_at(0).tolist() != order(50, 50, seed=2).batch_at(0).tolist()


def test_a_batch_is_the_same_whether_or_not_the_earlier_ones_were_drawn() -> None:
    straight = batches(order(), 9)
    offset = 0
    for number, batch in enumerate(straight):
        assert batches(order(), 9 - number, offset) == straight[number:]
        offset += len(batch)


def test_resume_costs_the_same_however_far_the_training_is() -> None:
    far = order(1000, 10)
    began = time.process_time()
    far.batch_at(1000 * 10_000_000 + 500)
    assert time.process_time() - began < 0.5


def test_order_draws_nothing_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    batches(order(), 9)
    assert torch.equal(before, torch.get_rng_state())
