"""The choice: gates, then the front of what passes, then the smallest artefact. Pure."""

from __future__ import annotations

from collections import Counter

from include.core.contracts.scorecard import GateCheck, Scorecard, Verdict
from include.core.errors import GateError
from include.evaluation.gates import baseline_of, latency_at, passing
from include.evaluation.latency import SINGLE
from include.evaluation.pareto import pareto_front

_NEAREST = 3
_ACCURACY_GATES = ("min_accuracy", "max_accuracy_drop")


def decide(scorecards: tuple[Scorecard, ...], checks: tuple[GateCheck, ...]) -> Verdict:
    """Choose one artefact.

    The front is taken among the candidates that pass: a better one that may not be used must not hide one that may.

    Args:
        scorecards: All measurements, the baseline among them.
        checks: What `check_gates` found for them.

    Raises:
        GateError: No candidate passes; the nearest ones are listed with their numbers. Or the baseline is missing, or
            two scorecards are of the same recipe.
    """
    _refuse_doubles(scorecards)
    front = pareto_front(passing(scorecards, checks))
    if not front:
        raise GateError(
            "no candidate passes the gates",
            where="gates",
            found="; ".join(nearest_violators(checks)),
            todo="loosen a gate, train longer, or add a milder recipe",
        )
    chosen = min(front, key=_preference)
    return Verdict(
        chosen=chosen.recipe,
        reason=_reason(chosen, front, baseline_of(scorecards)),
        front=tuple(card.recipe for card in front),
        checks=checks,
        scorecards=scorecards,
    )


def _refuse_doubles(scorecards: tuple[Scorecard, ...]) -> None:
    twice = [name for name, count in Counter(card.recipe for card in scorecards).items() if count > 1]
    if twice:
        raise GateError("a recipe has more than one scorecard", found=", ".join(twice), allowed="one per recipe")


def _preference(card: Scorecard) -> tuple[int, float, float, str]:
    # Size is exact and first; the name makes the order total.
    return card.size_bytes, latency_at(card, SINGLE).cpu_ms, -card.validation_accuracy, card.recipe


def miss(check: GateCheck) -> float:
    """How far a failed check is from passing: in accuracy as a share of rows, else relative to the limit."""
    if check.passed:
        return 0.0
    distance = abs(check.found - check.allowed)
    return distance if check.gate in _ACCURACY_GATES else distance / check.allowed


def nearest_violators(checks: tuple[GateCheck, ...]) -> list[str]:
    """The candidates that miss the fewest gates by the least, each with its failed checks in numbers."""
    failed: dict[str, list[GateCheck]] = {}
    for check in checks:
        if not check.passed:
            failed.setdefault(check.recipe, []).append(check)
    order = sorted(failed, key=lambda name: (len(failed[name]), sum(map(miss, failed[name])), name))
    return [f"{name} ({', '.join(map(_describe, failed[name]))})" for name in order[:_NEAREST]]


def _describe(check: GateCheck) -> str:
    sign = "<" if check.gate == "min_accuracy" else ">"
    return f"{check.gate}: {check.found:.6g} {sign} {check.allowed:.6g}"


def _reason(chosen: Scorecard, front: tuple[Scorecard, ...], baseline: Scorecard) -> str:
    others = f"the smallest of {len(front)} on the Pareto front" if len(front) > 1 else "alone on the Pareto front"
    return (
        f"{chosen.recipe} is {others}: {chosen.size_bytes} bytes, "
        f"{baseline.size_bytes / chosen.size_bytes:.2f} times smaller than {baseline.recipe}, "
        f"validation accuracy {chosen.validation_accuracy:.4f} (baseline {baseline.validation_accuracy:.4f}), "
        f"{latency_at(chosen, SINGLE).cpu_ms:.4f} ms CPU per row (baseline {latency_at(baseline, SINGLE).cpu_ms:.4f})"
    )
