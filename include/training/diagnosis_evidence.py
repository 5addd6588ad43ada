"""What the rules of the diagnosis read: shares of time and typical levels, over all ranks of one attempt."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from include.core.contracts.diagnosis import Finding
from include.training.telemetry.facts import MachineFacts, RankTelemetry
from include.training.telemetry.step_facts import StepFacts

# Below this the first steps, which compile and fill caches, are most of what was measured.
FEWEST_STEPS = 20
# Ten seconds of a device.
FEWEST_MEASUREMENTS = 10


@dataclass(frozen=True, slots=True)
class Missing:
    """A rule cannot be applied.

    Attributes:
        what: What was not measured.
    """

    what: str


# None: the rule applies and finds nothing.
Rule = Callable[["Evidence"], Finding | Missing | None]


class Evidence:
    """Telemetry of all ranks that is known of one attempt.

    Args:
        ranks: At least one.
    """

    def __init__(self, ranks: Sequence[RankTelemetry]) -> None:
        self.ranks = tuple(sorted(ranks, key=lambda rank: rank.rank))
        self.world = max(rank.world for rank in self.ranks)

    @property
    def machine(self) -> MachineFacts:
        """The machine of the first rank."""
        return self.ranks[0].machine

    @property
    def steps(self) -> tuple[StepFacts, ...]:
        """Steps of the ranks that did enough of them to be judged."""
        return tuple(rank.steps for rank in self.ranks if rank.steps and rank.steps.steps >= FEWEST_STEPS)

    @property
    def no_steps(self) -> Missing | None:
        """Why the step timer cannot be judged; None when it can."""
        if self.steps:
            return None
        if any(rank.steps for rank in self.ranks):
            return Missing(f"fewer than {FEWEST_STEPS} steps")
        return Missing("no step timer")

    def share(self, part: str) -> float | None:
        """Share of the time in a part of the step, the mean over the ranks; None where it is not timed."""
        return mean([facts.share(part) for facts in self.steps])

    def level(self, series: str, *, fewest: int = FEWEST_MEASUREMENTS) -> float | None:
        """Typical value of a series: the median of each rank's newest measurements, the mean over the ranks."""
        return mean([self._median(rank, series, fewest) for rank in self.ranks])

    @staticmethod
    def _median(rank: RankTelemetry, series: str, fewest: int) -> float | None:
        found = rank.series.get(series)
        if found is None or len(found.known) < fewest:
            return None
        return statistics.median(found.known)

    def largest(self, series: str) -> float | None:
        """The largest value of a series on any rank over the whole attempt."""
        values = [found.largest for rank in self.ranks if (found := rank.series.get(series)) and found.largest]
        return max(values, default=None)

    def smallest(self, series: str) -> float | None:
        """The smallest value of a series on any rank over the whole attempt."""
        values = [rank.series[series].smallest for rank in self.ranks if series in rank.series]
        return min((value for value in values if value is not None), default=None)


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of the known values, None for none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"  # noqa: PLR2004 - small ones need a digit


def known(**values: float | None) -> dict[str, float]:
    """Numbers for a finding; what is unknown is left out."""
    return {name: round(value, 4) for name, value in values.items() if value is not None}
