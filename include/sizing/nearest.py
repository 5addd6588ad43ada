"""When nothing fits: the nearest plan, and which limit to relax by how much. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from include.core.errors import NothingFitsError
from include.sizing.judging import Judged, Question

_SHOWN = 3


def nothing_fits(judged: Sequence[Judged], question: Question) -> NothingFitsError:
    """The error for a question that no offer answers; ``judged`` is best first."""
    name = question.workload.name
    near = [item for item in judged if not item.blockers and not item.elsewhere]
    if near:
        nearest = min(near, key=_distance)
        texts = [*(bar.text for bar in nearest.barred), *(limit.text for limit in nearest.violated)]
        remedies = [*(bar.remedy for bar in nearest.barred), *(limit.remedy for limit in nearest.violated)]
        return NothingFitsError(
            "no offer keeps the limits",
            where=f"workload {name}",
            found=f"nearest is {_named(nearest)}: {', '.join(texts)}",
            todo=f"{', '.join(remedies)}, or train for fewer epochs{_elsewhere(judged)}",
        )
    mine = [item for item in judged if not item.elsewhere]
    reasons = [f"{item.offer.name}: {item.reason}" for item in mine[:_SHOWN]]
    return NothingFitsError(
        f"no offer of engine {question.engine} fits",
        where=f"workload {name}",
        found=" / ".join(reasons) or "no offers at all",
        todo=f"use a smaller batch or model, bf16, or another engine{_elsewhere(judged)}",
    )


def _distance(item: Judged) -> tuple[bool, int, float]:
    """Least first: an unknown figure cannot be reached by any relaxing, a place is a decision, a number a number."""
    excess = max((v.excess for v in item.violated), default=0.0)
    return math.isinf(excess), len(item.barred), excess


def _named(item: Judged) -> str:
    count = 1 if item.option is None else item.option.instances
    return item.offer.name if count == 1 else f"{count} x {item.offer.name}"


def _elsewhere(judged: Sequence[Judged]) -> str:
    best = next((item for item in judged if item.fits), None)
    return "" if best is None else f"; {_named(best)} would do, but its engine {best.offer.engine} is not configured"
