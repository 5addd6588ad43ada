from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from include.serving.batcher import MicroBatcher, OverloadedError

pytestmark = pytest.mark.asyncio
LATER = 1e12


def rows(*values: float) -> np.ndarray:
    return np.array([[value] for value in values], np.float32)


class Gate:
    """A model that notes its batches and can be held back; doubles its input."""

    def __init__(self) -> None:
        self.batches: list[list[float]] = []
        self.open = threading.Event()
        self.open.set()

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.open.wait(10)
        self.batches.append(batch[:, 0].tolist())
        if (batch < 0).any():
            raise ValueError("negative")
        return 2 * batch


async def hold_with_first(batcher: MicroBatcher, model: Gate) -> asyncio.Future[np.ndarray]:
    """Occupy the model with one request, so that what follows queues up."""
    model.open.clear()
    first = batcher.submit(rows(0), deadline=LATER)
    for _ in range(3):  # the batcher takes it and hands it to its thread
        await asyncio.sleep(0)
    assert batcher.waiting == 0
    return first


async def test_every_caller_gets_its_own_rows() -> None:
    model = Gate()
    batcher = MicroBatcher(model, max_wait_s=0.05)
    first = await hold_with_first(batcher, model)
    one, two = batcher.submit(rows(1, 2), deadline=LATER), batcher.submit(rows(3), deadline=LATER)
    model.open.set()
    assert (await first).tolist() == [[0]]
    assert (await one).tolist() == [[2], [4]]
    assert (await two).tolist() == [[6]]
    assert model.batches == [[0], [1, 2, 3]]
    await batcher.close()


async def test_a_lone_request_does_not_wait_for_company() -> None:
    batcher = MicroBatcher(Gate(), max_wait_s=30)
    async with asyncio.timeout(5):
        assert (await batcher.submit(rows(1), deadline=LATER)).tolist() == [[2]]
    await batcher.close()


async def test_batches_stay_within_their_size_and_larger_requests_run_alone() -> None:
    model = Gate()
    batcher = MicroBatcher(model, max_rows=2, max_wait_s=0.05)
    first = await hold_with_first(batcher, model)
    others = [batcher.submit(rows(*values), deadline=LATER) for values in ((1,), (2, 3), (4,), (5, 6, 7))]
    model.open.set()
    await asyncio.gather(first, *others)
    assert model.batches == [[0], [1], [2, 3], [4], [5, 6, 7]]
    await batcher.close()


async def test_an_exception_reaches_every_caller_and_the_batcher_goes_on() -> None:
    model = Gate()
    batcher = MicroBatcher(model, max_wait_s=0.05)
    first = await hold_with_first(batcher, model)
    bad = [batcher.submit(rows(value), deadline=LATER) for value in (-1, -2)]
    model.open.set()
    await first
    for future in bad:
        with pytest.raises(ValueError, match="negative"):
            await future
    assert (await batcher.submit(rows(4), deadline=LATER)).tolist() == [[8]]
    await batcher.close()


async def test_one_bad_request_does_not_fail_its_neighbours() -> None:
    model = Gate()
    batcher = MicroBatcher(model, max_wait_s=0.05)
    first = await hold_with_first(batcher, model)
    good, bad, other = (batcher.submit(rows(value), deadline=LATER) for value in (1, -1, 2))
    model.open.set()
    answers = await asyncio.gather(first, good, bad, other, return_exceptions=True)
    assert [answer.tolist() for answer in answers if isinstance(answer, np.ndarray)] == [[[0]], [[2]], [[4]]]
    assert isinstance(answers[2], ValueError)
    assert model.batches[1] == [1, -1, 2]
    await batcher.close()


async def test_a_full_queue_refuses() -> None:
    model = Gate()
    batcher = MicroBatcher(model, max_queue=2)
    first = await hold_with_first(batcher, model)
    waiting = [batcher.submit(rows(1), deadline=LATER) for _ in range(2)]
    with pytest.raises(OverloadedError, match="2 requests are waiting"):
        batcher.submit(rows(1), deadline=LATER)
    model.open.set()
    await asyncio.gather(first, *waiting)
    await batcher.close()


async def test_what_waited_past_its_deadline_is_dropped_without_work() -> None:
    model = Gate()
    batcher = MicroBatcher(model)
    first = await hold_with_first(batcher, model)
    late = batcher.submit(rows(1), deadline=asyncio.get_running_loop().time())
    in_time = batcher.submit(rows(2), deadline=LATER)
    model.open.set()
    await first
    with pytest.raises(OverloadedError, match="deadline"):
        await late
    await in_time
    assert model.batches == [[0], [2]]
    await batcher.close()


async def test_a_caller_that_left_does_not_hurt_the_others() -> None:
    model = Gate()
    batcher = MicroBatcher(model, max_wait_s=0.05)
    first = await hold_with_first(batcher, model)
    gone, stays = batcher.submit(rows(1), deadline=LATER), batcher.submit(rows(2), deadline=LATER)
    gone.cancel()
    model.open.set()
    await first
    assert (await stays).tolist() == [[4]]
    assert model.batches == [[0], [2]]
    await batcher.close()


async def test_closing_answers_what_is_queued() -> None:
    model = Gate()
    batcher = MicroBatcher(model)
    first = await hold_with_first(batcher, model)
    queued = [batcher.submit(rows(value), deadline=LATER) for value in (1, 2, 3)]
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0)
    model.open.set()
    await closing
    assert [future.result().tolist() for future in (first, *queued)] == [[[0]], [[2]], [[4]], [[6]]]
