"""Pareto front over accuracy (up), size, latency and memory (down), with tolerances for noise. Pure.

A plain comparison of noisy figures puts nearly every candidate on the front, and "no worse within a tolerance" is not
transitive: three candidates can beat each other in a circle and leave the front empty. So each figure is first turned
into a level, the number of whole tolerances that it lies behind the best one; dominance of levels is a strict partial
order, hence a front of at least one candidate always exists and no member of it is dominated.
"""

from __future__ import annotations

from math import floor, log

from include.core.contracts.scorecard import Scorecard
from include.evaluation.gates import latency_at
from include.evaluation.intervals import standard_error
from include.evaluation.latency import SINGLE

# CPU time of one artefact differs by about this much between runs on a machine with other work.
LATENCY_TOLERANCE = 0.10
# Peak memory of one artefact differed by at most 0.3 % between runs; this leaves a margin.
MEMORY_TOLERANCE = 0.01
# Keeps a figure that lies exactly a whole number of tolerances behind on the far side of the border.
_ROUNDING = 1e-9

Levels = tuple[int, int, int, int]


def _steps_above(value: float, best: float, tolerance: float) -> int:
    return floor(log(value / best) / log(1 + tolerance) + _ROUNDING)


def accuracy_tolerance(scorecards: tuple[Scorecard, ...]) -> float:
    """One standard error of the best validation accuracy, over the rows it was measured on."""
    best = max(scorecards, key=lambda card: card.validation_accuracy)
    return standard_error(share=best.validation_accuracy, rows=best.validation_rows or best.rows)


def levels(scorecards: tuple[Scorecard, ...]) -> dict[str, Levels]:
    """Level of each candidate in accuracy, size, latency and memory; 0 is as good as the best.

    Size is exact, so its level is the size itself. Latency is CPU time at batch 1.
    """
    best_accuracy = max(card.validation_accuracy for card in scorecards)
    tolerance = accuracy_tolerance(scorecards)
    best_cpu = min(latency_at(card, SINGLE).cpu_ms for card in scorecards)
    best_rss = min(card.peak_rss_bytes for card in scorecards)
    return {
        card.recipe: (
            floor((best_accuracy - card.validation_accuracy) / tolerance + _ROUNDING),
            card.size_bytes,
            _steps_above(latency_at(card, SINGLE).cpu_ms, best_cpu, LATENCY_TOLERANCE),
            _steps_above(card.peak_rss_bytes, best_rss, MEMORY_TOLERANCE),
        )
        for card in scorecards
    }


def dominates(one: Levels, other: Levels) -> bool:
    """Whether `one` is at least as good in all objectives and better in one."""
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def pareto_front(scorecards: tuple[Scorecard, ...]) -> tuple[Scorecard, ...]:
    """The scorecards that no other one dominates, in their given order.

    Args:
        scorecards: At least one, with distinct recipes.
    """
    if not scorecards:
        return ()
    by_recipe = levels(scorecards)
    return tuple(
        card for card in scorecards if not any(dominates(other, by_recipe[card.recipe]) for other in by_recipe.values())
    )
