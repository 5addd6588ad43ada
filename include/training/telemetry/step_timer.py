"""Where the time of each step goes: sections timed on the host, in bounded memory, without a file.

A section costs well below a microsecond and the end of a step a few. On a device that runs behind the host (CUDA) a
section holds what the host waited for, not what the device did: a copy that does not block shows up in PCIe bytes and
in ``compute``, at the first call that needs its result.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from operator import sub
from typing import Self, TypeVar

from include.training.telemetry.step_facts import PARTS, PartFacts, StepFacts, StepWindow, quantile

_FIRST_WINDOW_S = 0.5
_MOST_WINDOWS = 240
_MOST_SAMPLES = 2048
T = TypeVar("T")


class Section:
    """One part of a step, a context manager that is used again at each step. It does not nest with itself."""

    __slots__ = ("_began", "_clock", "entries", "longest_s", "total_s")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = 0.0
        self.total_s = 0.0
        self.longest_s = 0.0
        self.entries = 0

    def __enter__(self) -> Self:
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self.add(self._clock() - self._began)

    def add(self, seconds: float) -> None:
        """Count a part that somebody else has timed."""
        self.total_s += seconds
        self.entries += 1
        self.longest_s = max(self.longest_s, seconds)


class StepTimer:
    """Times the parts of each step of one rank.

    Quantiles come from a uniform sample of the steps: taking every n-th would fall into step with workers that deliver
    every n-th batch late. The sample has a generator of its own, so the training's is not touched.

    Args:
        rank: This worker's rank.
        world: Number of workers.
        gradient_bytes: Bytes of one set of gradients as the layout reduces them, None where unknown.
        clock: Monotonic seconds.

    Attributes:
        clock: Monotonic seconds.
        after_step: Called after each step; how a profiler follows the steps.
    """

    def __init__(
        self,
        *,
        rank: int = 0,
        world: int = 1,
        gradient_bytes: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._rank, self._world, self._gradient_bytes = rank, world, gradient_bytes
        self.clock = self._clock = clock
        self._sections = {name: Section(clock) for name in PARTS}
        self._evaluation = Section(clock)
        self._ordered = tuple(self._sections.values())
        self._marks = [0.0] * len(self._ordered)
        self._random = random.Random(0)  # noqa: S311 - a sample of step times is no secret
        self._sample: list[tuple[float, ...]] = []
        self._windows: list[StepWindow] = []
        self._window_s = _FIRST_WINDOW_S
        self.after_step: Callable[[], None] | None = None
        self.steps = 0
        self.samples = 0
        self._longest_step_s = 0.0
        self._evaluated_s = 0.0
        self._seen = self._totals()
        self.begin()

    def begin(self) -> None:
        """The first step begins now, and not when the timer was made."""
        self._began_at = self._step_at = self._window_at = self._clock()

    # ---------------------------------------------------------------- sections of a step

    def waiting(self) -> Section:
        """The next batch is waited for."""
        return self._sections["data_wait"]

    def copying(self) -> Section:
        """A batch is copied from the host to the device."""
        return self._sections["h2d"]

    def computing(self) -> Section:
        """Forward, backward and optimizer."""
        return self._sections["compute"]

    def forwarding(self) -> Section:
        """The part of ``computing`` before any gradient is exchanged, by which ranks can be compared; optional."""
        return self._sections["forward"]

    def timing_forward(self, forward: Callable[..., T]) -> Callable[..., T]:
        """The same function with its time in ``forwarding``."""
        section = self._sections["forward"]

        def timed(*inputs: object) -> T:
            with section:
                return forward(*inputs)

        return timed

    def syncing(self) -> Section:
        """Other ranks are waited for, outside of ``computing``."""
        return self._sections["sync"]

    def saving(self) -> Section:
        """The loop stands still for a checkpoint."""
        return self._sections["save"]

    def evaluating(self) -> Section:
        """Validation between steps; no part of any step."""
        return self._evaluation

    def end_step(self, *, samples: int, waited_s: float | None = None, computing_since: float | None = None) -> float:
        """One optimizer step is over. What is timed after it, such as a save, counts to the next one.

        Args:
            samples: Rows that this rank consumed in it.
            waited_s: Seconds of ``waiting``, for a loop that reads the clock itself: a section costs two more calls.
            computing_since: Likewise when ``computing`` began; it ends now.

        Returns:
            The clock's time.
        """
        now = self._clock()
        if waited_s is not None:
            self._sections["data_wait"].add(waited_s)
        if computing_since is not None:
            self._sections["compute"].add(now - computing_since)
        evaluated_s = self._evaluation.total_s
        step_s = now - self._step_at - (evaluated_s - self._evaluated_s)
        self._step_at, self._evaluated_s = now, evaluated_s
        steps = self.steps = self.steps + 1
        self.samples += samples
        self._longest_step_s = max(self._longest_step_s, step_s)
        totals = [section.total_s for section in self._ordered]
        # Vitter's algorithm R: every step so far is equally likely to be in the sample.
        place = steps - 1 if steps <= _MOST_SAMPLES else int(self._random.random() * steps)
        if place < _MOST_SAMPLES:
            self._keep((step_s, *map(sub, totals, self._marks)), place)
        self._marks = totals
        if now - self._window_at >= self._window_s:
            self._close_window()
        if self.after_step is not None:
            self.after_step()
        return now

    def _keep(self, row: tuple[float, ...], place: int) -> None:
        if place == len(self._sample):
            self._sample.append(row)
        else:
            self._sample[place] = row

    # ---------------------------------------------------------------- windows

    def _totals(self) -> tuple[int, int, float, dict[str, float]]:
        """Sums up to the last step."""
        return self.steps, self.samples, self._evaluated_s, dict(zip(PARTS, self._marks, strict=True))

    def _open_window(self) -> StepWindow:
        """The window that has not ended yet, up to the last step."""
        steps, samples, evaluated_s, spent = self._totals()
        old_steps, old_samples, old_evaluated_s, old_spent = self._seen
        return StepWindow(
            at_s=self._window_at - self._began_at,
            seconds=self._step_at - self._window_at - (evaluated_s - old_evaluated_s),
            steps=steps - old_steps,
            samples=samples - old_samples,
            parts_s={name: spent[name] - old_spent[name] for name in spent},
        )

    def _close_window(self) -> None:
        self._windows.append(self._open_window())
        self._seen, self._window_at = self._totals(), self._step_at
        if len(self._windows) > _MOST_WINDOWS:
            pairs = zip(self._windows[::2], self._windows[1::2], strict=False)
            left_over = self._windows[-1:] if len(self._windows) % 2 else []
            self._windows = [first.joined(second) for first, second in pairs] + left_over
            self._window_s *= 2

    # ---------------------------------------------------------------- what comes out

    def shares(self) -> dict[str, float]:
        """Share of the newest window's time in each part, for the progress; empty before the first window closes."""
        if not self._windows or self._windows[-1].seconds <= 0:
            return {}
        last = self._windows[-1]
        return {name: round(last.parts_s[name] / last.seconds, 3) for name in PARTS}

    def facts(self) -> StepFacts:
        """Everything so far. Safe to call from another thread; it may be a step behind."""
        rows = list(self._sample)
        columns = list(zip(*rows, strict=True)) if rows else [()] * (1 + len(PARTS))
        parts = {
            name: PartFacts(
                total_s=section.total_s,
                entries=section.entries,
                longest_s=section.longest_s,
                p50_s=quantile(column, 0.5),
                p95_s=quantile(column, 0.95),
            )
            for (name, section), column in zip(self._sections.items(), columns[1:], strict=True)
        }
        return StepFacts(
            rank=self._rank,
            world=self._world,
            steps=self.steps,
            samples=self.samples,
            seconds=self._step_at - self._began_at - self._evaluated_s + self._after_last_step_s(),
            evaluated_s=self._evaluation.total_s,
            step_p50_s=quantile(columns[0], 0.5),
            step_p95_s=quantile(columns[0], 0.95),
            step_longest_s=self._longest_step_s if self.steps else None,
            bytes_sent=self._bytes_sent(),
            parts=parts,
            windows=(*self._windows, *([last] if (last := self._open_window()).steps else [])),
        )

    def _after_last_step_s(self) -> float:
        """What was timed since: the last save of a training has no step after it."""
        sections = zip(PARTS, self._ordered, self._marks, strict=True)
        return sum(section.total_s - mark for name, section, mark in sections if name != "forward")

    def _bytes_sent(self) -> int | None:
        """What a ring all-reduce sends: 2 (N - 1) / N times the gradients per rank and step (Patarasuk, Yuan 2009)."""
        if self._world < 2:  # noqa: PLR2004 - one worker exchanges nothing
            return None
        if self._gradient_bytes is None:
            return None
        return int(self.steps * 2 * (self._world - 1) / self._world * self._gradient_bytes)
