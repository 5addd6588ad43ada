"""The front as an SVG chart: test accuracy against one quantity at a time.

Each point carries its position for every quantity as data attributes, so that a script can move it.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import log

from include.evaluation.picture_points import AXES, COLOURS, Point, Role, logarithmic_ticks, sentence

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 24, 52
_BASE = _HEIGHT - _BOTTOM
_RADIUS, _CHOSEN_RADIUS = 7, 10
_INTERVALS = 4
_LABEL_STEP = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class _Horizontal:
    """Logarithmic scale of one quantity.

    Attributes:
        ticks: Its ends and divisions.
    """

    ticks: list[float]

    def place(self, value: float) -> float:
        """Pixels from the left."""
        share = log(value / self.ticks[0]) / log(self.ticks[-1] / self.ticks[0])
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vertical:
    """Linear scale of accuracy."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Pixels from the top."""
        return round(_BASE - (value - self.low) / (self.high - self.low) * (_BASE - _TOP), 1)

    def ticks(self) -> list[float]:
        """Values at equal distances."""
        return [self.low + (self.high - self.low) * number / _INTERVALS for number in range(_INTERVALS + 1)]


def draw_svg(points: tuple[Point, ...]) -> str:
    """The chart; the first quantity is shown.

    Args:
        points: At least one candidate.
    """
    scales = {
        axis.name: _Horizontal(ticks=logarithmic_ticks([axis.value(point.card) for point in points])) for axis in AXES
    }
    low = min(point.card.accuracy_low for point in points)
    high = max(point.card.accuracy_high for point in points)
    vertical = _Vertical(low=low, high=max(high, low + 0.01))
    marks = "".join(_mark(number, point, scales, vertical) for number, point in enumerate(points))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="Test accuracy of all candidates against the selected quantity">'
        f"{_grid(vertical)}{_ticks(scales)}{marks}</svg>"
    )


def _grid(vertical: _Vertical) -> str:
    lines = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{value:.1%}</text>'
        for value, y in ((value, vertical.place(value)) for value in vertical.ticks())
    ]
    return "".join(lines) + f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_BASE}" y2="{_BASE}"/>'


def _ticks(scales: dict[str, _Horizontal]) -> str:
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    groups = []
    for number, axis in enumerate(AXES):
        marks = "".join(
            f'<line class="axis" x1="{x}" x2="{x}" y1="{_BASE}" y2="{_BASE + 5}"/>'
            f'<text x="{x}" y="{_BASE + 19}" text-anchor="middle">{value:.3g}</text>'
            for value, x in ((value, scales[axis.name].place(value)) for value in scales[axis.name].ticks)
        )
        groups.append(
            f'<g class="ticks" data-axis="{axis.name}" visibility="{"hidden" if number else "visible"}">{marks}'
            f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(axis.label)}</text></g>'
        )
    return "".join(groups)


def _mark(number: int, point: Point, scales: dict[str, _Horizontal], vertical: _Vertical) -> str:
    """Circle, interval and label of one candidate."""
    y = vertical.place(point.card.accuracy)
    top, bottom = (round(vertical.place(end) - y, 1) for end in (point.card.accuracy_high, point.card.accuracy_low))
    xs = {axis.name: scales[axis.name].place(axis.value(point.card)) for axis in AXES}
    attributes = " ".join(f'data-x-{name}="{x}"' for name, x in xs.items())
    colour = COLOURS[point.role]
    radius = _CHOSEN_RADIUS if point.role is Role.CHOSEN else _RADIUS
    fill = "#fff" if point.role is Role.REFUSED else colour
    # Candidates often lie close together: each label gets a height of its own.
    return (
        f'<g class="point" tabindex="0" {attributes} data-y="{y}" transform="translate({xs[AXES[0].name]} {y})">'
        f"<title>{escape(sentence(point))}</title>"
        f'<line x1="0" x2="0" y1="{top}" y2="{bottom}" stroke="{colour}"/>'
        f'<circle r="{radius}" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
        f'<text x="{radius + 3}" y="{-8 - _LABEL_STEP * number}" style="fill:{colour}">'
        f"{escape(point.card.recipe)}</text></g>"
    )
