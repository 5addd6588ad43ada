"""Scorecards and verdicts: what was measured, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latency of one batch size.

    Attributes:
        batch: Rows per call.
        p50_ms: Median wall milliseconds per call.
        p95_ms: 95th percentile.
        cpu_ms: Process CPU milliseconds per call, the noise-proof figure.
        calls: Timed calls.
    """

    batch: int
    p50_ms: float
    p95_ms: float
    cpu_ms: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """Measurements of one artefact, reloaded in a fresh process, on the test and validation splits.

    Attributes:
        recipe: Recipe that made the artefact.
        recipe_hash: Its hash.
        model_uri: Store URI of the artefact.
        sha256: Digest of the artefact that was loaded.
        size_bytes: File size.
        rows: Test rows scored.
        accuracy: Share of right answers on the test split.
        accuracy_low: Lower end of the 95 % Wilson interval.
        accuracy_high: Upper end.
        validation_accuracy: Share of right answers on the validation split: choices use this one.
        latencies: One entry per batch size (1 and 32).
        peak_rss_bytes: Peak resident memory of the fresh process.
        runtime: Runtime, version and CPU flags that matter (VNNI).
        validation_rows: Validation rows scored, None where not recorded.
    """

    recipe: str
    recipe_hash: str
    model_uri: str
    sha256: str
    size_bytes: int
    rows: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    validation_accuracy: float
    latencies: tuple[Latency, ...]
    peak_rss_bytes: int
    runtime: str
    validation_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One comparison that a gate made.

    Attributes:
        recipe: Recipe checked.
        gate: Name of the gate, for example ``max_accuracy_drop``.
        found: The measured number.
        allowed: The limit.
        passed: Whether it holds.
    """

    recipe: str
    gate: str
    found: float
    allowed: float
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The gates' answer, with every number that led to it.

    Attributes:
        chosen: Recipe of the chosen candidate.
        reason: Why, in one sentence.
        front: Recipes on the Pareto front.
        checks: All comparisons.
        scorecards: All scorecards.
    """

    chosen: str
    reason: str
    front: tuple[str, ...]
    checks: tuple[GateCheck, ...]
    scorecards: tuple[Scorecard, ...]
