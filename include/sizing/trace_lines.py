"""Straight lines in the micro-batch through the moments of a traced pass, and which of them are the peak.

Only the profile job imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from include.core.contracts.demand import PeakLine
from include.sizing.trace_timeline import ACTIVATIONS, LOSS, TEMPORARY, Rows, Timeline

# A peak moves a few times at most as the micro-batch grows; more lines would tell of rounding alone.
MOST_LINES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work of one forward and backward pass of so many samples or, as a slope, of one further sample."""

    flop: float
    bytes_moved: float
    ops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The moments of one pass, each a line in the micro-batch.

    Attributes:
        names: The operator after which each moment is.
        boundary: Number of moments in the forward pass.
        fixed: Bytes at a micro-batch of none, shape (moments, 3): activations, loss, temporary.
        slopes: Bytes per sample, shape (moments, 3).
        gradients: Bytes of gradients, shape (moments,).
        held_gradients: Bytes of all gradients.
        per_pass: Work that does not depend on the micro-batch.
        per_sample: Work of each sample.
    """

    names: tuple[str, ...]
    boundary: int
    fixed: Rows
    slopes: Rows
    gradients: Rows
    held_gradients: float
    per_pass: Work
    per_sample: Work


def fit_lines(smaller: Timeline, larger: Timeline, *, batches: tuple[int, int]) -> Moments:
    """Lines through two traces of the same step.

    Args:
        smaller: Trace at the first micro-batch.
        larger: Trace at the second one.
        batches: The two micro-batches.
    """
    if smaller.names != larger.names:
        # The model runs other operators for another batch: what is comparable are the two peaks.
        smaller, larger = _peak_alone(smaller), _peak_alone(larger)
    step = batches[1] - batches[0]
    slopes = (larger.alive - smaller.alive) / step
    per_sample = Work(
        flop=(larger.flop - smaller.flop) / step,
        bytes_moved=(larger.bytes_moved - smaller.bytes_moved) / step,
        ops=0.0,
    )
    return Moments(
        names=smaller.names,
        boundary=smaller.boundary,
        fixed=smaller.alive - batches[0] * slopes,
        slopes=slopes,
        gradients=smaller.gradients,
        held_gradients=smaller.held_gradients,
        per_pass=Work(
            flop=smaller.flop - batches[0] * per_sample.flop,
            bytes_moved=smaller.bytes_moved - batches[0] * per_sample.bytes_moved,
            ops=max(smaller.ops, larger.ops),
        ),
        per_sample=per_sample,
    )


def _peak_alone(timeline: Timeline) -> Timeline:
    at = int((timeline.alive.sum(axis=1) + timeline.gradients).argmax())
    return Timeline(
        names=("peak",),
        boundary=0,
        alive=timeline.alive[at : at + 1],
        gradients=timeline.gradients[at : at + 1],
        held_gradients=timeline.held_gradients,
        flop=timeline.flop,
        bytes_moved=timeline.bytes_moved,
        ops=timeline.ops,
    )


def peaks(moments: Moments, *, gradients: Rows | None, less: float) -> tuple[PeakLine, ...]:
    """The lines that are the highest at some micro-batch, by growing micro-batch.

    Args:
        moments: Moments of the pass.
        gradients: Bytes of gradients at each moment, None to leave them out.
        less: Bytes that are counted elsewhere.
    """
    fixed = moments.fixed.sum(axis=1) - less + (0.0 if gradients is None else gradients)
    found = []
    for at in _upper_envelope(fixed, moments.slopes.sum(axis=1)):
        slope = moments.slopes[at]
        found.append(
            PeakLine(
                fixed_bytes=round(float(fixed[at])),
                activations_bytes_per_sample=float(slope[ACTIVATIONS]),
                loss_bytes_per_sample=float(slope[LOSS]),
                temporary_bytes_per_sample=float(slope[TEMPORARY]),
            )
        )
    return tuple(found[:MOST_LINES])


def _upper_envelope(fixed: Rows, slopes: Rows) -> Iterator[int]:
    """Lines that are highest somewhere from a micro-batch of one on."""
    batch = 1.0
    heights = fixed + slopes * batch
    at = int(np.lexsort((slopes, heights))[-1])
    yield at
    while (steeper := np.flatnonzero(slopes > slopes[at] + 1e-9)).size:
        crossings = (fixed[at] - fixed[steeper]) / (slopes[steeper] - slopes[at])
        at = int(steeper[np.lexsort((-slopes[steeper], crossings))[0]])
        yield at
