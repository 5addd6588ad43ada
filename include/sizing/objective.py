"""What the planner minimises, as one number per option. Pure."""

from __future__ import annotations

import math

from include.config.workload import ComputeSection
from include.core.contracts.plan import Objective
from include.sizing.assumptions import HOUR_S
from include.sizing.limits import Figures


def score(figures: Figures, compute: ComputeSection) -> float:
    """The smaller the better; infinite where a figure that counts is unknown.

    A weighted objective adds US dollars, hours and kilograms of CO2 equivalent, each times its weight. These units are
    the normalisation: a weight says what an hour or a kilogram is worth beside a dollar, and the score of one option
    does not depend on which others are on offer.
    """
    usd = math.inf if figures.usd is None else figures.usd
    time_s = math.inf if figures.time_s is None else figures.time_s
    gco2e = math.inf if figures.gco2e is None else figures.gco2e
    if compute.objective is Objective.WEIGHTED:
        assert compute.weights is not None  # the workload's own check
        pairs = ((compute.weights.cost, usd), (compute.weights.time, time_s / HOUR_S))
        return sum(w * value for w, value in (*pairs, (compute.weights.carbon, gco2e / 1000)) if w > 0)
    return {Objective.COST: usd, Objective.TIME: time_s, Objective.CARBON: gco2e}[compute.objective]


def missing(figures: Figures, compute: ComputeSection) -> str | None:
    """Which unknown figure keeps an option from being chosen, None where there is none."""
    if not math.isinf(score(figures, compute)):
        return None
    weights = compute.weights if compute.objective is Objective.WEIGHTED else None
    by = compute.objective.value
    if figures.usd is None and (by == "cost" or (weights and weights.cost > 0)):
        return "no price: listed, never chosen by cost"
    if figures.gco2e is None:
        return "carbon unknown: never chosen by carbon"
    return "time unknown"
