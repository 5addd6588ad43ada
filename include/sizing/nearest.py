"""When nothing fits: the nearest plan, and which limit to relax by how much. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from include.core.errors import NothingFitsError
from include.sizing.assumptions import USABLE_MEMORY
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
            todo=f"{', '.join(remedies)}{_or_less(nearest)}{_elsewhere(judged)}",
        )
    mine = [item for item in judged if not item.elsewhere]
    cramped = [item for item in mine if item.short is not None]
    if cramped and all(item.option is None for item in mine):
        return _too_large(min(cramped, key=lambda item: item.short or 0.0), judged, question)
    reasons = [f"{item.offer.name}: {item.reason}" for item in mine[:_SHOWN]]
    return NothingFitsError(
        f"no offer of engine {question.engine} fits",
        where=f"workload {name}",
        found=" / ".join(reasons) or "no offers at all",
        todo=f"use a smaller batch or model, bf16, or another engine{_elsewhere(judged)}",
    )


def _too_large(nearest: Judged, judged: Sequence[Judged], question: Question) -> NothingFitsError:
    """Memory is what is missing: the offer that comes nearest, and how much more a device would need."""
    assert nearest.short is not None
    has = (nearest.offer.accelerator_memory_bytes or 0) / 1e9
    wanted = nearest.short * has
    return NothingFitsError(
        f"no offer of engine {question.engine} has enough device memory",
        where=f"workload {question.workload.name}",
        found=f"nearest is {nearest.offer.name}: {'; '.join(nearest.blockers)}, of which {USABLE_MEMORY:.0%} is usable",
        todo=(
            f"use devices of {wanted:.4g} GB or more (+{wanted - has:.3g} GB), a smaller model, or a lower precision"
            f"{_elsewhere(judged)}"
        ),
    )


def _or_less(nearest: Judged) -> str:
    """Fewer epochs as advice, where they can help: a place stays, and so does the start with its part of a figure."""
    if nearest.barred or nearest.option is None or not nearest.violated:
        return ""
    start = nearest.option.course.parts["start"] / nearest.option.time_s
    enough = all(limit.found is not None and limit.found * start < limit.allowed for limit in nearest.violated)
    return ", or train for fewer epochs" if enough else ""


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
