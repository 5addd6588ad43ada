"""What workers say beside their loss: to stop, to save, both, in whatever number."""

from __future__ import annotations

import math

import pytest
import torch

from include.training.ballots import Ballots, Count, _Pending


@pytest.mark.parametrize(
    ("world", "stops", "saves"),
    [(world, stops, saves) for world in (1, 2, 7) for stops in range(world + 1) for saves in range(world + 1)],
)
def test_words_of_all_workers_are_told_apart_after_the_sum(world: int, stops: int, saves: int) -> None:
    ballots = Ballots(device=torch.device("cpu"))
    ballots._world = world
    said = float(stops + 2 * world * saves)
    count = Count(3, 32, False, math.nan, False)
    ballots._pending.append(_Pending(count, torch.tensor([1.5, said], dtype=torch.float64), None, None))
    (found,) = ballots.rest()
    assert (found.step, found.loss, found.stop, found.save) == (3, 1.5, stops > 0, saves > 0)


def test_one_worker_on_a_cpu_counts_at_once() -> None:
    ballots = Ballots(device=torch.device("cpu"))
    count = ballots.cast(torch.tensor(2.0), step=1, rows=4, first=True, stop=False, save=True)
    assert count == Count(1, 4, True, 2.0, False, True)
