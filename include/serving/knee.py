"""The knee of an endpoint: the highest request rate at which its p99 latency meets the objective.

The search is pure: it decides which rate to try next and what an answer means; the caller does the probing. It grows
geometrically until a rate fails and then bisects on a logarithmic scale, the way MLPerf's server scenario looks for the
highest Poisson rate within a latency bound. A kink detector on the curve would answer with the sweep, not the service.

A load generator that falls behind adds its own lag to every latency. So a failed probe with a lagging generator says
nothing and is tried again, while a pass despite lag is a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

ProbeVerdict = Literal["pass", "fail", "invalid"]
# Share of the objective that the generator's own p99 lag may take before a failed probe is called invalid.
MAX_LAG_SHARE = 0.1
# Share of requests that may fail within a passing probe.
MAX_ERROR_SHARE = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one probe measured.

    Attributes:
        rate_per_s: Intended rate, requests per second.
        sent: Requests sent, those of the warm-up included.
        requests: Requests measured.
        errors: Measured requests without a good answer.
        p99_ms: 99th percentile from the intended send time, None when too few were answered to have one.
        generator_lag_p99_ms: 99th percentile of how late the generator sent.
        cpu_ms_per_request: Server CPU per request, None where not measured.
    """

    rate_per_s: float
    sent: int
    requests: int
    errors: int
    p99_ms: float | None
    generator_lag_p99_ms: float
    cpu_ms_per_request: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How far and how finely to search.

    Attributes:
        start_per_s: First rate.
        growth: Factor between rates while growing, above 1.
        bisections: Steps between the last good and the first bad rate.
        tries: Probes of one rate while they are invalid.
        min_per_s: Rate below which the search gives up.
        max_per_s: Rate above which the search does not go.
        max_probes: Probes after which the search answers with what it has.
    """

    start_per_s: float = 100.0
    growth: float = 2.0
    bisections: int = 2
    tries: int = 2
    min_per_s: float = 1.0
    max_per_s: float = 10_000.0
    max_probes: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The answer.

    Attributes:
        last_good: The passing probe with the highest rate, None when none passed.
        upper_side: ``confirmed`` when the next higher rate tried failed with a generator in time.
        curve: All probes in order, with their verdicts.
    """

    last_good: Probe | None
    upper_side: Literal["confirmed", "inconclusive"]
    curve: tuple[tuple[Probe, ProbeVerdict], ...]


def judge(probe: Probe, *, slo_p99_ms: float) -> ProbeVerdict:
    """Verdict over one probe."""
    few_errors = probe.errors <= MAX_ERROR_SHARE * probe.requests
    if probe.requests > 0 and few_errors and probe.p99_ms is not None and probe.p99_ms <= slo_p99_ms:
        return "pass"
    return "invalid" if probe.generator_lag_p99_ms > MAX_LAG_SHARE * slo_p99_ms else "fail"


@dataclass(slots=True)
class _Search:
    probe: Callable[[float], Probe]
    slo_p99_ms: float
    settings: SearchSettings
    curve: list[tuple[Probe, ProbeVerdict]] = field(default_factory=list)

    def attempt(self, rate: float) -> ProbeVerdict:
        """Probe a rate until its verdict is valid or the tries (or all probes) are used up."""
        verdict: ProbeVerdict = "invalid"
        for _ in range(self.settings.tries):
            if len(self.curve) >= self.settings.max_probes:
                break
            probe = self.probe(rate)
            verdict = judge(probe, slo_p99_ms=self.slo_p99_ms)
            self.curve.append((probe, verdict))
            if verdict != "invalid":
                break
        return verdict

    def bracket(self) -> tuple[float | None, float | None]:
        """Highest good and lowest bad rate of a geometric walk up, or down when the first rate fails already."""
        low, rate = None, self.settings.start_per_s
        while rate <= self.settings.max_per_s and self.attempt(rate) == "pass":
            low, rate = rate, rate * self.settings.growth
        if rate > self.settings.max_per_s:
            return low, None
        high = rate
        while low is None and (rate := rate / self.settings.growth) >= self.settings.min_per_s:
            if self.attempt(rate) == "pass":
                low = rate
            else:
                high = rate
        return low, high

    def answer(self) -> Knee:
        passed = [probe for probe, verdict in self.curve if verdict == "pass"]
        last_good = max(passed, key=lambda probe: probe.rate_per_s, default=None)
        floor = last_good.rate_per_s if last_good else 0.0
        above = [(probe.rate_per_s, verdict) for probe, verdict in self.curve if probe.rate_per_s > floor]
        nearest = min((rate for rate, _ in above), default=None)
        confirmed = any(rate == nearest and verdict == "fail" for rate, verdict in above)
        return Knee(
            last_good=last_good,
            upper_side="confirmed" if confirmed else "inconclusive",
            curve=tuple(self.curve),
        )


def find_knee(probe: Callable[[float], Probe], *, slo_p99_ms: float, settings: SearchSettings | None = None) -> Knee:
    """Search for the knee.

    Args:
        probe: Loads the endpoint at a rate and measures.
        slo_p99_ms: The objective.
        settings: Limits of the search.
    """
    settings = settings or SearchSettings()
    search = _Search(probe, slo_p99_ms, settings)
    low, high = search.bracket()
    for _ in range(settings.bisections):
        if low is None or high is None:
            break
        middle = math.sqrt(low * high)
        if search.attempt(middle) == "pass":
            low = middle
        else:
            high = middle
    return search.answer()
