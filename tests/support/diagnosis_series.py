"""Telemetry as a device would have given it, made from a description: levels, dips, noise, shares of the step."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from include.training.telemetry.facts import MachineFacts, RankTelemetry
from include.training.telemetry.step_facts import PARTS, PartFacts, StepFacts, StepWindow
from tests.support.series import series_of

GIB = 2**30
SECONDS = 300
Shape = Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One bench case: what it is, what must be said, what was measured on each rank."""

    name: str
    expected: str
    ranks: tuple[RankTelemetry, ...]


def flat(level: float) -> Shape:
    return lambda _: level


def square(high: float, low: float, *, period_s: float, low_s: float, first_s: float = 0) -> Shape:
    """High, with ``low_s`` seconds of low in each period."""
    return lambda t: low if (t - first_s) % period_s >= period_s - low_s else high


def ramp(start: float, end: float) -> Shape:
    return lambda t: start + (end - start) * t / (SECONDS - 1)


def late_start(level: float, *, after_s: float) -> Shape:
    return lambda t: 0.0 if t < after_s else level


def irregular(high: float, low: float, *, seed: int, every_s: tuple[int, int], low_s: tuple[int, int]) -> Shape:
    """Dips of random length at random distances."""
    rng, down, t = random.Random(seed), set(), 0
    while t < SECONDS:
        t += rng.randint(*every_s)
        length = rng.randint(*low_s)
        down |= set(range(t, t + length))
        t += length
    return lambda second: low if second in down else high


def measured(shape: Shape | float, *, noise: float, seed: int, top: float | None = 1.0):
    """A series of one value a second with relative noise."""
    rng = random.Random(seed)
    shape = flat(shape) if isinstance(shape, int | float) else shape
    values = [max(0.0, shape(t) * rng.gauss(1.0, noise)) for t in range(SECONDS)]
    return series_of([value if top is None else min(top, value) for value in values], every_s=1.0)


def device_series(*, seed: int, noise: float = 0.03, **shapes: Shape | float):
    """Series by name; names that end in a unit are not shares."""
    shares = {
        name
        for name in shapes
        if name.endswith(("_busy", "_active")) or name in {"host_cpu", "host_io_wait", "worker_cpu"}
    }
    found = {}
    for place, (name, shape) in enumerate(shapes.items()):
        spread = 0.002 if "memory_used" in name else noise
        found[name] = measured(shape, noise=spread, seed=seed + place, top=1.0 if name in shares else None)
    return found


def step_facts(
    *,
    step_s: float,
    rate: Sequence[float] | float = 1000.0,
    rank: int = 0,
    world: int = 1,
    p95_factor: float = 1.15,
    **shares: float,
) -> StepFacts:
    """Steps over the whole time with these shares in the parts; the rest of the step is untimed.

    Args:
        step_s: Median step.
        rate: Samples per second, or one value per window.
    """
    rates = [float(rate)] * 30 if isinstance(rate, int | float) else list(rate)
    steps = int(SECONDS / step_s)
    window_s = SECONDS / len(rates)
    windows = tuple(
        StepWindow(
            at_s=place * window_s,
            seconds=window_s,
            steps=int(window_s / step_s),
            samples=int(value * window_s),
            parts_s={name: shares.get(name, 0.0) * window_s for name in PARTS},
        )
        for place, value in enumerate(rates)
    )
    parts = {
        name: PartFacts(
            total_s=shares.get(name, 0.0) * SECONDS,
            entries=steps if name in shares else 0,
            longest_s=3 * shares.get(name, 0.0) * step_s,
            p50_s=shares.get(name, 0.0) * step_s,
            p95_s=p95_factor * shares.get(name, 0.0) * step_s,
        )
        for name in PARTS
    }
    return StepFacts(
        rank=rank,
        world=world,
        steps=steps,
        samples=sum(window.samples for window in windows),
        seconds=float(SECONDS),
        evaluated_s=0.0,
        step_p50_s=step_s,
        step_p95_s=p95_factor * step_s,
        step_longest_s=3 * step_s,
        bytes_sent=None,
        parts=parts,
        windows=windows,
    )


def gpu(
    memory_gib: float = 80.0,
    *,
    peak: float | None = None,
    checkpoint_every_s: float | None = None,
    pcie: float | None = None,
) -> MachineFacts:
    """A device; ``peak`` is the share of its memory that tensors took."""
    return MachineFacts(
        device="some accelerator",
        device_memory_bytes=int(memory_gib * GIB),
        device_peak_bytes=None if peak is None else int(peak * memory_gib * GIB),
        host_memory_bytes=256 * GIB,
        host_cores=32,
        checkpoint_every_s=checkpoint_every_s,
        pcie_bytes_per_s=pcie,
    )
