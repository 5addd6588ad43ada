"""Deep models of equal blocks: two shallow ones are traced, and each further block adds what their difference shows.

Only the profile job imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from include.sizing.trace import States
from include.sizing.trace_lines import Moments, Work

SHARDED_DEPTHS = (4, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """A model whose depth is a number.

    Attributes:
        build: Makes the model of a given depth.
        depth: The real depth.
        traced: Two smaller depths.
    """

    build: Callable[[int], Any]
    depth: int
    traced: tuple[int, int] = (2, 3)

    def sharded(self) -> Repeats:
        """The same at depths from which on sharded blocks are alike: while one runs, its neighbours are exchanged."""
        return replace(self, traced=SHARDED_DEPTHS)

    def builder(self, depth: int) -> Callable[[], Any]:
        """Makes a model of this depth."""
        return lambda: self.build(depth)

    def onward(self, shallow: float, deeper: float) -> float:
        """The value at the real depth."""
        first, second = self.traced
        return shallow + (deeper - shallow) * (self.depth - first) / (second - first)


def extrapolated_states(shallow: States, deeper: States, repeats: Repeats) -> States:
    """Model states of the real depth; its blocks are the ones by which the two models differ."""
    return States(
        buffers_bytes=repeats.onward(shallow.buffers_bytes, deeper.buffers_bytes),
        optimizer_bytes=repeats.onward(shallow.optimizer_bytes, deeper.optimizer_bytes),
        update_bytes=repeats.onward(shallow.update_bytes, deeper.update_bytes),
        bytes_moved=repeats.onward(shallow.bytes_moved, deeper.bytes_moved),
        ops=repeats.onward(shallow.ops, deeper.ops),
        learned=_repeated(shallow.learned, deeper.learned, repeats),
        frozen=_repeated(shallow.frozen, deeper.frozen, repeats),
    )


def _repeated(
    shallow: tuple[tuple[int, int], ...], deeper: tuple[tuple[int, int], ...], repeats: Repeats
) -> tuple[tuple[int, int], ...]:
    added = list(deeper)
    for entry in shallow:
        added.remove(entry)
    first, second = repeats.traced
    blocks, left = divmod(repeats.depth - first, second - first)
    # The difference is of several equal blocks: of a remainder of them, every so-many-th entry of each kind.
    rest = sorted(added)[:: second - first][: len(added) * left // (second - first)]
    return (*shallow, *(added * blocks), *rest)


def extrapolated_moments(shallow: Moments, deeper: Moments, repeats: Repeats) -> Moments:
    """Moments around the turn from forward to backward, and moments counted from the end.

    Between the two, memory rises or falls by the same amount with each block, so the peak is at one of them.
    """
    turn = _matching_around(shallow, deeper)
    end = _matching_from_end(shallow, deeper)
    pairs = [*turn, *end]
    first, second = (np.asarray(side) for side in zip(*pairs, strict=True))
    onward = repeats.onward
    return Moments(
        names=tuple(shallow.names[at] for at in first),
        boundary=sum(at < shallow.boundary for at, _ in pairs),
        fixed=onward(shallow.fixed[first], deeper.fixed[second]),  # type: ignore[arg-type] # the same for arrays
        slopes=onward(shallow.slopes[first], deeper.slopes[second]),  # type: ignore[arg-type] # the same for arrays
        gradients=onward(shallow.gradients[first], deeper.gradients[second]),  # type: ignore[arg-type] # as above
        held_gradients=onward(shallow.held_gradients, deeper.held_gradients),
        per_pass=_work(shallow.per_pass, deeper.per_pass, onward),
        per_sample=_work(shallow.per_sample, deeper.per_sample, onward),
    )


def _matching_around(shallow: Moments, deeper: Moments) -> list[tuple[int, int]]:
    """Moments near the turn: half of either pass, since the other half is as near to the end."""
    forward, backward = shallow.boundary // 2, (len(shallow.names) - shallow.boundary) // 2
    before = _run(shallow.names[: shallow.boundary][::-1], deeper.names[: deeper.boundary][::-1])
    after = _run(shallow.names[shallow.boundary :], deeper.names[deeper.boundary :])
    return [(shallow.boundary + k, deeper.boundary + k) for k in range(-min(before, forward), min(after, backward))]


def _matching_from_end(shallow: Moments, deeper: Moments) -> list[tuple[int, int]]:
    length = _run(shallow.names[shallow.boundary :][::-1], deeper.names[deeper.boundary :][::-1])
    backward = (len(shallow.names) - shallow.boundary + 1) // 2
    return [(len(shallow.names) - k, len(deeper.names) - k) for k in range(1, min(length, backward) + 1)]


def _run(first: Sequence[str], second: Sequence[str]) -> int:
    """How many names agree from the start."""
    for at, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return at
    return min(len(first), len(second))


def _work(shallow: Work, deeper: Work, onward: Callable[[float, float], float]) -> Work:
    return Work(
        flop=onward(shallow.flop, deeper.flop),
        bytes_moved=onward(shallow.bytes_moved, deeper.bytes_moved),
        ops=onward(shallow.ops, deeper.ops),
    )
