"""An open-loop load generator: requests leave when a Poisson process says so, whether or not earlier ones came back.

A closed loop waits for answers and so sends least when the server is slowest; its percentiles leave out exactly the
requests that would have suffered ("coordinated omission"). Here every latency counts from the intended send time, and
how late the generator itself was is recorded beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np
from numpy.typing import NDArray

from include.serving.knee import Probe

_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """How one probe loads the server.

    Attributes:
        duration_s: Seconds that are measured.
        warm_s: Seconds before them that are not.
        timeout_s: Seconds after which a request counts as an error.
        seed: Seed of the arrival times.
    """

    duration_s: float = 1.0
    warm_s: float = 0.2
    timeout_s: float = 2.0
    seed: int = 0


def arrivals(*, rate_per_s: float, seconds: float, seed: int) -> NDArray[np.float64]:
    """Arrival times of a Poisson process in [0, seconds): exponential gaps with mean ``1 / rate``."""
    generator = np.random.default_rng(seed)
    expected = rate_per_s * seconds
    # Six standard deviations more than expected: drawn once, and never too few in practice.
    gaps = generator.exponential(1 / rate_per_s, int(expected + 6 * np.sqrt(expected)) + 10)
    times = np.cumsum(gaps)
    return np.asarray(times[times < seconds])


async def send_load(url: str, bodies: Sequence[bytes], *, rate_per_s: float, settings: LoadSettings) -> Probe:
    """Load an endpoint at one rate.

    Args:
        url: Full URL of the invocations.
        bodies: Request bodies, used in turn.
        rate_per_s: Intended rate.
        settings: Durations and seed.

    Returns:
        Figures of the measured part; errors count as infinitely slow.
    """
    times = arrivals(rate_per_s=rate_per_s, seconds=settings.warm_s + settings.duration_s, seed=settings.seed)
    latency_s = np.full(len(times), np.inf)
    lag_s = np.zeros(len(times))
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=_HEADERS) as session:
        start = time.perf_counter() + 0.02

        async def one(index: int) -> None:
            try:
                async with session.post(url, data=bodies[index % len(bodies)]) as answer:
                    await answer.read()
                    if answer.status == 200:  # noqa: PLR2004 - HTTP OK
                        latency_s[index] = time.perf_counter() - start - times[index]
            except (aiohttp.ClientError, TimeoutError, OSError):
                return

        tasks = []
        for index, at in enumerate(times):
            early = start + at - time.perf_counter()
            # Also without time left the loop gets its turn, or answers would pile up unread.
            await asyncio.sleep(max(early, 0.0))
            lag_s[index] = time.perf_counter() - start - at
            tasks.append(asyncio.create_task(one(index)))
        await asyncio.gather(*tasks)
    measured = times >= settings.warm_s
    return _figures(rate_per_s, len(times), latency_s[measured], lag_s[measured])


def _figures(rate_per_s: float, sent: int, latency_s: NDArray[np.float64], lag_s: NDArray[np.float64]) -> Probe:
    if len(latency_s) == 0:
        return Probe(rate_per_s=rate_per_s, sent=sent, requests=0, errors=0, p99_ms=None, generator_lag_p99_ms=0.0)
    # "higher": with few samples the percentile is one that was really seen, on the pessimistic side.
    p99_ms = float(np.percentile(latency_s, 99, method="higher")) * 1000
    return Probe(
        rate_per_s=rate_per_s,
        sent=sent,
        requests=len(latency_s),
        errors=int(np.isinf(latency_s).sum()),
        p99_ms=p99_ms if np.isfinite(p99_ms) else None,
        generator_lag_p99_ms=float(np.percentile(lag_s, 99)) * 1000,
    )
