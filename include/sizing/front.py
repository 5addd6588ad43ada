"""The Pareto front of plans by time, cost and carbon. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from include.sizing.prediction import Option

Triple = tuple[float, float, float]


def figures_of(option: Option) -> Triple:
    """Time, cost, carbon; what is unknown cannot beat anything, so it counts as infinite."""
    usd = math.inf if option.usd is None else option.usd
    gco2e = math.inf if option.gco2e is None else option.gco2e
    return option.time_s, usd, gco2e


def pareto(options: Iterable[Option]) -> list[Option]:
    """Options that no other one equals or beats in all three figures, fastest first; of equals the first by name."""
    ordered = sorted(
        (
            (figures_of(option), option.offer.name, option.offer.zone or "", option.instances, option)
            for option in options
        ),
        key=lambda item: item[:4],
    )
    front: list[tuple[Triple, Option]] = []
    for figures, _, _, _, option in ordered:
        # Everything before is at least as fast, so cost and carbon decide.
        if not any(cost <= figures[1] and carbon <= figures[2] for (_, cost, carbon), _ in front):
            front.append((figures, option))
    return [option for _, option in front]
