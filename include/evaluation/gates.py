"""Gates: compare every scorecard with the workload's limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from include.config.recipes import BASELINE
from include.config.workload import GatesSection
from include.core.contracts.scorecard import GateCheck, Latency, Scorecard
from include.core.errors import GateError
from include.evaluation.latency import SINGLE

# Shares of whole rows differ by at least one part in the number of rows; this only absorbs binary rounding, so that a
# drop of exactly the allowed size passes.
_ROUNDING = 1e-9


def latency_at(scorecard: Scorecard, batch: int) -> Latency:
    """Latency of one batch size.

    Raises:
        GateError: It was not measured.
    """
    for latency in scorecard.latencies:
        if latency.batch == batch:
            return latency
    measured = ", ".join(str(latency.batch) for latency in scorecard.latencies) or "none"
    raise GateError(f"latency at batch {batch} was not measured", where=scorecard.recipe, found=f"batches {measured}")


def baseline_of(scorecards: Iterable[Scorecard]) -> Scorecard:
    """Scorecard of the baseline recipe, with which all others are compared.

    Raises:
        GateError: It is missing.
    """
    names = []
    for scorecard in scorecards:
        if scorecard.recipe == BASELINE:
            return scorecard
        names.append(scorecard.recipe)
    raise GateError(
        "the baseline was not measured", found=", ".join(names) or "no scorecard", allowed=f"a scorecard of {BASELINE}"
    )


def _at_least(recipe: str, gate: str, found: float, allowed: float) -> GateCheck:
    return GateCheck(recipe=recipe, gate=gate, found=found, allowed=allowed, passed=found >= allowed - _ROUNDING)


def _at_most(recipe: str, gate: str, found: float, allowed: float) -> GateCheck:
    return GateCheck(recipe=recipe, gate=gate, found=found, allowed=allowed, passed=found <= allowed + _ROUNDING)


def _check_one(scorecard: Scorecard, baseline: Scorecard, gates: GatesSection) -> list[GateCheck]:
    name = scorecard.recipe
    drop = round(baseline.validation_accuracy - scorecard.validation_accuracy, 9)
    checks = [
        _at_least(name, "min_accuracy", scorecard.validation_accuracy, gates.min_accuracy),
        _at_most(name, "max_accuracy_drop", drop, gates.max_accuracy_drop),
    ]
    if gates.max_p95_ms is not None:
        checks.append(_at_most(name, "max_p95_ms", latency_at(scorecard, SINGLE).p95_ms, gates.max_p95_ms))
    if gates.max_size_bytes is not None:
        checks.append(_at_most(name, "max_size_bytes", scorecard.size_bytes, gates.max_size_bytes))
    return checks


def check_gates(scorecards: tuple[Scorecard, ...], gates: GatesSection) -> tuple[GateCheck, ...]:
    """All comparisons of all candidates, in the order of the scorecards.

    Accuracy gates use the validation split, so that the test split stays an honest report.

    Raises:
        GateError: The baseline, or a latency that a gate needs, was not measured.
    """
    baseline = baseline_of(scorecards)
    return tuple(check for scorecard in scorecards for check in _check_one(scorecard, baseline, gates))


def passing(scorecards: tuple[Scorecard, ...], checks: tuple[GateCheck, ...]) -> tuple[Scorecard, ...]:
    """The scorecards without a failed check."""
    failed = {check.recipe for check in checks if not check.passed}
    return tuple(scorecard for scorecard in scorecards if scorecard.recipe not in failed)
