"""What a step timer has found, as plain data that goes into a file and comes out again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Parts of a step. `forward` lies within `compute`, the others follow each other.
PARTS = ("data_wait", "h2d", "compute", "forward", "sync", "save")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """One part over all steps.

    Attributes:
        total_s: Seconds in it.
        entries: How often it was entered; 0 means that the loop does not time it.
        longest_s: The longest single entry.
        p50_s: Median per step, None before the first step.
        p95_s: 95th percentile per step, None before the first step.
    """

    total_s: float
    entries: int
    longest_s: float
    p50_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """A stretch of time.

    Attributes:
        at_s: Its begin, seconds since the timer started.
        seconds: Its length without validation.
        steps: Steps that ended in it.
        samples: Their rows on this rank.
        parts_s: Seconds by part.
    """

    at_s: float
    seconds: float
    steps: int
    samples: int
    parts_s: dict[str, float]

    def joined(self, other: StepWindow) -> StepWindow:
        """This window and the next one as one."""
        return StepWindow(
            at_s=self.at_s,
            seconds=self.seconds + other.seconds,
            steps=self.steps + other.steps,
            samples=self.samples + other.samples,
            parts_s={name: value + other.parts_s[name] for name, value in self.parts_s.items()},
        )

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of this rank, None for a window without length."""
        return self.samples / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """One rank's steps in one attempt, measured on the host.

    Attributes:
        rank: The rank.
        world: Number of ranks.
        steps: Steps done.
        samples: Rows consumed by this rank.
        seconds: Wall seconds without validation.
        evaluated_s: Seconds of validation.
        step_p50_s: Median step, None before the first one.
        step_p95_s: 95th percentile.
        step_longest_s: The longest step.
        bytes_sent: Bytes that this rank sent for gradients, estimated from a ring all-reduce; None for one worker
            and where the bytes of the gradients are unknown.
        parts: By name, see `PARTS`.
        windows: In order of time, of growing length in a long training.
    """

    rank: int
    world: int
    steps: int
    samples: int
    seconds: float
    evaluated_s: float
    step_p50_s: float | None
    step_p95_s: float | None
    step_longest_s: float | None
    bytes_sent: int | None
    parts: dict[str, PartFacts]
    windows: tuple[StepWindow, ...]

    def share(self, part: str) -> float | None:
        """Share of the time spent in a part; None where the loop does not time it."""
        found = self.parts.get(part)
        if found is None or found.entries == 0 or self.seconds <= 0:
            return None
        return found.total_s / self.seconds

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of this rank, None before the first step."""
        return self.samples / self.seconds if self.steps and self.seconds > 0 else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share of the values lies (nearest rank); None for none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
