from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from aiohttp import web

from include.serving.loadgen import LoadSettings, arrivals, send_load


def test_arrivals_are_poisson_and_repeatable() -> None:
    times = arrivals(rate_per_s=500, seconds=20, seed=1)
    assert np.array_equal(times, arrivals(rate_per_s=500, seconds=20, seed=1))
    assert not np.array_equal(times[:10], arrivals(rate_per_s=500, seconds=20, seed=2)[:10])
    assert np.all(np.diff(times) >= 0)
    assert times[-1] < 20
    # 10,000 expected, standard deviation 100; the gaps of a Poisson process have a deviation equal to their mean.
    assert abs(len(times) - 10_000) < 500
    gaps = np.diff(times)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)


@asynccontextmanager
async def server(handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


QUICK = LoadSettings(duration_s=0.5, warm_s=0.1, timeout_s=5.0, seed=3)


@pytest.mark.asyncio
async def test_all_requests_leave_and_the_bodies_take_turns() -> None:
    seen: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((await request.json())["n"])
        return web.Response()

    async with server(handler) as url:
        bodies = [json.dumps({"n": n}).encode() for n in range(3)]
        probe = await send_load(url, bodies, rate_per_s=100, settings=QUICK)
    times = arrivals(rate_per_s=100, seconds=0.6, seed=3)
    assert (probe.sent, probe.requests) == (len(times), int((times >= 0.1).sum()))
    assert probe.errors == 0
    assert sorted(seen) == sorted(index % 3 for index in range(len(times)))
    assert probe.p99_ms is not None
    assert 0 < probe.p99_ms < 5000


@pytest.mark.asyncio
async def test_a_stall_is_charged_to_every_request_that_it_delayed() -> None:
    """One stall of 300 ms: a closed loop would see one slow request, an open loop sees all that should have left."""
    lock = asyncio.Lock()
    stalled = False

    async def handler(_request: web.Request) -> web.Response:
        nonlocal stalled
        async with lock:
            if not stalled:
                stalled = True
                await asyncio.sleep(0.3)
        return web.Response()

    async with server(handler) as url:
        settings = LoadSettings(duration_s=0.5, warm_s=0.0, seed=3)
        probe = await send_load(url, [b"{}"], rate_per_s=100, settings=settings)
    assert probe.p99_ms is not None
    assert probe.p99_ms > 250


@pytest.mark.asyncio
async def test_answers_other_than_200_and_timeouts_are_errors() -> None:
    count = 0

    async def handler(_request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        if count % 2:
            return web.Response(status=503)
        await asyncio.sleep(0.4)
        return web.Response()

    async with server(handler) as url:
        settings = LoadSettings(duration_s=0.2, warm_s=0.0, timeout_s=0.2, seed=3)
        probe = await send_load(url, [b"{}"], rate_per_s=50, settings=settings)
    assert probe.requests > 0
    assert probe.errors == probe.requests
    assert probe.p99_ms is None


@pytest.mark.asyncio
async def test_without_a_server_everything_is_an_error() -> None:
    probe = await send_load("http://127.0.0.1:9/", [b"{}"], rate_per_s=50, settings=QUICK)
    assert probe.errors == probe.requests > 0


@pytest.mark.asyncio
async def test_a_generator_that_is_held_up_records_its_lag() -> None:
    import time

    async def handler(_request: web.Request) -> web.Response:
        time.sleep(0.05)  # noqa: ASYNC251 - server and generator share this loop: the generator cannot send meanwhile
        return web.Response()

    async with server(handler) as url:
        probe = await send_load(url, [b"{}"], rate_per_s=50, settings=QUICK)
    assert probe.generator_lag_p99_ms > 20
