"""What the pictures of the front show: one point per candidate with its role and, where it failed, the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import log10

from include.core.contracts.scorecard import GateCheck, Scorecard
from include.evaluation.gates import latency_at
from include.evaluation.latency import SINGLE


class Role(StrEnum):
    """What became of a candidate."""

    CHOSEN = "chosen"
    FRONT = "on the front"
    DOMINATED = "dominated"
    REFUSED = "refused by a gate"


# Room at both ends of a logarithmic axis, so that no point sits on the frame.
_MARGIN_DECADES = 0.15
COLOURS = {Role.CHOSEN: "#0b7a43", Role.FRONT: "#1f5fa8", Role.DOMINATED: "#7a7a7a", Role.REFUSED: "#b3261e"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A quantity to draw accuracy against.

    Attributes:
        name: Identifier.
        label: Title with unit.
        value: Reads it from a scorecard.
    """

    name: str
    label: str
    value: Callable[[Scorecard], float]


AXES = (
    Axis(name="size", label="File size (kB)", value=lambda card: card.size_bytes / 1e3),
    Axis(name="cpu", label="CPU time per call at batch 1 (ms)", value=lambda card: latency_at(card, SINGLE).cpu_ms),
    Axis(name="memory", label="Peak memory of the process (MB)", value=lambda card: card.peak_rss_bytes / 1e6),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One candidate.

    Attributes:
        card: Its measurements.
        role: What became of it.
        failed: Names of failed gates with found and allowed numbers.
    """

    card: Scorecard
    role: Role
    failed: tuple[str, ...]


def points(
    scorecards: tuple[Scorecard, ...], *, checks: tuple[GateCheck, ...], front: tuple[str, ...], chosen: str | None
) -> tuple[Point, ...]:
    """Points of all candidates.

    Args:
        scorecards: All measurements.
        checks: All comparisons of the gates.
        front: Recipes on the front.
        chosen: The chosen recipe, None where no candidate passes.
    """
    found = []
    for card in scorecards:
        failed = tuple(
            f"{check.gate}: {check.found:.6g} (limit {check.allowed:.6g})"
            for check in checks
            if check.recipe == card.recipe and not check.passed
        )
        found.append(Point(card=card, role=_role(card.recipe, failed, front, chosen), failed=failed))
    return tuple(found)


def _role(recipe: str, failed: tuple[str, ...], front: tuple[str, ...], chosen: str | None) -> Role:
    if recipe == chosen:
        return Role.CHOSEN
    if failed:
        return Role.REFUSED
    return Role.FRONT if recipe in front else Role.DOMINATED


def logarithmic_ticks(values: list[float], *, intervals: int = 4) -> list[float]:
    """Ends and equal divisions of a logarithmic axis that holds all values with some room around them.

    Args:
        values: Positive values.
        intervals: Number of divisions.
    """
    low, high = log10(min(values)) - _MARGIN_DECADES, log10(max(values)) + _MARGIN_DECADES
    return [10 ** (low + (high - low) * number / intervals) for number in range(intervals + 1)]


def sentence(point: Point) -> str:
    """One line about a candidate."""
    card = point.card
    text = (
        f"{card.recipe}: {card.accuracy:.2%} on {card.rows} test rows "
        f"({card.accuracy_low:.2%} to {card.accuracy_high:.2%}), {card.size_bytes / 1e3:.1f} kB, "
        f"{latency_at(card, SINGLE).cpu_ms:.3f} ms CPU, {point.role.value}"
    )
    return f"{text} ({'; '.join(point.failed)})" if point.failed else text
