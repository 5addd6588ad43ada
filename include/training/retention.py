"""Which checkpoints of a run stay while it goes on. Pure: the answer follows from the arguments alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """What stays, beside what is referred to and the last valid checkpoint.

    Attributes:
        keep_last: Newest checkpoints, at least 1.
        keep_best: Checkpoints with the best metric.
        keep_every: Steps between checkpoints that stay for good, 0 for none.
    """

    keep_last: int = 10
    keep_best: int = 1
    keep_every: int = 0

    def __post_init__(self) -> None:
        if self.keep_last < 1 or self.keep_best < 0 or self.keep_every < 0:
            raise ValueError("retention keeps at least the last checkpoint, and no negative number of any kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCheckpoint:
    """What retention knows of a checkpoint.

    Attributes:
        name: Its directory.
        step: Optimizer steps done.
        attempt: Attempt that wrote it.
        metric: Larger is better; None where nobody measured it.
        damaged: Whether it was found to be damaged; None where nobody looked.
    """

    name: str
    step: int
    attempt: int
    metric: float | None = None
    damaged: bool | None = None


def to_keep(
    checkpoints: Collection[CommittedCheckpoint], policy: RetentionPolicy, *, referenced: Collection[str] = ()
) -> frozenset[str]:
    """Names of the checkpoints that stay.

    A damaged one counts for nothing, so it never takes the place of a good one. The newest that is known to be good
    stays even where newer ones exist that nobody has looked at.

    Args:
        checkpoints: All committed checkpoints of the run.
        policy: What stays.
        referenced: Names or URIs of checkpoints that something refers to.
    """
    order = sorted(checkpoints, key=lambda c: (c.step, c.attempt), reverse=True)
    usable = [c for c in order if not c.damaged]
    measured = [c for c in usable if c.metric is not None]
    # The earlier of two equally good ones: it is the one that may be referred to already.
    best = sorted(measured, key=lambda c: (-(c.metric or 0.0), c.step, c.attempt))
    named = {part for reference in referenced for part in reference.split("/")}
    kept = {
        *(c.name for c in usable[: policy.keep_last]),
        *(c.name for c in best[: policy.keep_best]),
        *(c.name for c in usable if policy.keep_every and c.step % policy.keep_every == 0),
        *(c.name for c in order if c.name in named),
        *[c.name for c in usable if c.damaged is False][:1],
    }
    return frozenset(kept or {c.name for c in order})
