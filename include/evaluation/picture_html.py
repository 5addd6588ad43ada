"""The front as one self-contained interactive page: SVG, a table and a little script, nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from math import log10
from typing import Any

from include.core.contracts.scorecard import Scorecard
from include.evaluation.gates import latency_at
from include.evaluation.picture_points import AXES, Axis, Point, Role

_COLOURS = {Role.CHOSEN: "#0b7a43", Role.FRONT: "#1f5fa8", Role.DOMINATED: "#7a7a7a", Role.REFUSED: "#b3261e"}
_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 130, 24, 52
_RADIUS, _CHOSEN_RADIUS = 7, 10
_Y_TICKS = 4

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem;color:#1c1c1c;background:#fff}
svg{max-width:100%;height:auto} svg text{font-size:12px;fill:#333} .axis{stroke:#888} .grid{stroke:#e4e4e4}
.point{cursor:pointer} .point:focus{outline:none} .point:focus circle,.point:hover circle{stroke:#000;stroke-width:2}
table{border-collapse:collapse;margin-top:1rem} th,td{padding:.3rem .7rem;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left} tr.on{background:#fff6d6}
#detail{min-height:1.5em;font-weight:600} label{margin-right:1rem}
"""

# Moves the points when another quantity is picked, and ties points, table rows and the line of detail together.
_SCRIPT = """
const data = JSON.parse(document.getElementById("front").textContent);
const detail = document.getElementById("detail");
const groups = [...document.querySelectorAll(".point")], rows = [...document.querySelectorAll("tbody tr")];
function show(i) {
  rows.forEach((row, n) => row.classList.toggle("on", n === i));
  detail.textContent = i < 0 ? "" : data.points[i].text;
}
function pick(name) {
  const axis = data.axes[name];
  document.getElementById("x-label").textContent = axis.label;
  groups.forEach((group, i) => group.setAttribute("transform", `translate(${axis.x[i]} ${data.points[i].y})`));
  document.querySelectorAll(".ticks").forEach(t => t.setAttribute("visibility",
    t.dataset.axis === name ? "visible" : "hidden"));
}
groups.forEach((group, i) => {
  for (const event of ["mouseenter", "focus"]) group.addEventListener(event, () => show(i));
  for (const event of ["mouseleave", "blur"]) group.addEventListener(event, () => show(-1));
});
rows.forEach((row, i) => { row.addEventListener("mouseenter", () => show(i));
  row.addEventListener("mouseleave", () => show(-1)); });
document.querySelectorAll("input[name=axis]").forEach(i => i.addEventListener("change", () => pick(i.value)));
"""


def draw_html(title: str, points: tuple[Point, ...]) -> str:
    """Page with the front; without scripts it still shows accuracy against size and the table.

    Args:
        title: Heading.
        points: All candidates.
    """
    scales = {axis.name: _horizontal(axis, points) for axis in AXES}
    ys = _vertical(points)
    data = {
        "axes": {axis.name: {"label": axis.label, "x": scales[axis.name][0]} for axis in AXES},
        "points": [{"y": y, "text": _sentence(point)} for y, point in zip(ys, points, strict=True)],
    }
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = (
        f"<h1>{escape(title)}</h1>{_controls()}{_svg(points, scales, ys)}"
        f'<p id="detail" aria-live="polite"></p>{_table(points)}'
        f'<script type="application/json" id="front">{_embedded(data)}</script><script>{_SCRIPT}</script>'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _embedded(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _controls() -> str:
    options = "".join(
        f'<label><input type="radio" name="axis" value="{axis.name}"{" checked" if not i else ""}> '
        f"{escape(axis.label)}</label>"
        for i, axis in enumerate(AXES)
    )
    return f"<p>Test accuracy against: {options}</p>"


def _horizontal(axis: Axis, points: tuple[Point, ...]) -> tuple[list[float], list[tuple[float, str]]]:
    """Pixel positions of the points on a logarithmic axis, and its ticks: the smallest, middle and largest value."""
    values = [axis.value(point.card) for point in points]
    low, high = log10(min(values)) - 0.1, log10(max(values)) + 0.1
    inner = _WIDTH - _LEFT - _RIGHT

    def place(value: float) -> float:
        return round(_LEFT + (log10(value) - low) / (high - low) * inner, 1)

    ticks = [10 ** (low + (high - low) * share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return [place(value) for value in values], [(place(tick), f"{tick:.3g}") for tick in ticks]


def _range(points: tuple[Point, ...]) -> tuple[float, float]:
    low = min(point.card.accuracy_low for point in points)
    high = max(point.card.accuracy_high for point in points)
    return low, max(high, low + 0.01)


def _place_y(value: float, points: tuple[Point, ...]) -> float:
    low, high = _range(points)
    return round(_HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM), 1)


def _vertical(points: tuple[Point, ...]) -> list[float]:
    return [_place_y(point.card.accuracy, points) for point in points]


def _svg(
    points: tuple[Point, ...], scales: dict[str, tuple[list[float], list[tuple[float, str]]]], ys: list[float]
) -> str:
    base = _HEIGHT - _BOTTOM
    low, high = _range(points)
    grid = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{value:.1%}</text>'
        for value in (low + (high - low) * tick / _Y_TICKS for tick in range(_Y_TICKS + 1))
        for y in (_place_y(value, points),)
    )
    ticks = "".join(
        f'<g class="ticks" data-axis="{axis.name}" visibility="{"hidden" if i else "visible"}">'
        + "".join(
            f'<line class="axis" x1="{x}" x2="{x}" y1="{base}" y2="{base + 5}"/>'
            f'<text x="{x}" y="{base + 19}" text-anchor="middle">{escape(text)}</text>'
            for x, text in scales[axis.name][1]
        )
        + "</g>"
        for i, axis in enumerate(AXES)
    )
    first = AXES[0]
    marks = "".join(_mark(point, x, y, points) for point, x, y in zip(points, scales[first.name][0], ys, strict=True))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="Accuracy of all candidates against the selected quantity">{grid}'
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>{ticks}'
        f'<text id="x-label" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{escape(first.label)}</text>{marks}</svg>"
    )


def _mark(point: Point, x: float, y: float, points: tuple[Point, ...]) -> str:
    top, bottom = (round(_place_y(v, points) - y, 1) for v in (point.card.accuracy_high, point.card.accuracy_low))
    colour = _COLOURS[point.role]
    radius = _CHOSEN_RADIUS if point.role is Role.CHOSEN else _RADIUS
    fill = "#fff" if point.role is Role.REFUSED else colour
    return (
        f'<g class="point" tabindex="0" transform="translate({x} {y})"><title>{escape(_sentence(point))}</title>'
        f'<line x1="0" x2="0" y1="{top}" y2="{bottom}" stroke="{colour}"/>'
        f'<circle r="{radius}" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
        f'<text x="{radius + 4}" y="-6">{escape(point.card.recipe)}</text></g>'
    )


def _sentence(point: Point) -> str:
    card = point.card
    text = (
        f"{card.recipe}: {card.accuracy:.2%} on {card.rows} test rows "
        f"({card.accuracy_low:.2%} to {card.accuracy_high:.2%}), {card.size_bytes / 1e3:.1f} kB, "
        f"{latency_at(card, 1).cpu_ms:.3f} ms CPU, {point.role.value}"
    )
    return f"{text} ({'; '.join(point.failed)})" if point.failed else text


def _table(points: tuple[Point, ...]) -> str:
    titles = ("recipe", "validation", "test", "kB", "p50 ms", "p95 ms", "CPU ms", "CPU ms, batch 32", "MB", "role")
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, points))}</tbody></table>"


def _row(point: Point) -> str:
    card = point.card
    single = latency_at(card, 1)
    cells = (
        card.recipe,
        f"{card.validation_accuracy:.2%}",
        f"{card.accuracy:.2%}",
        f"{card.size_bytes / 1e3:.1f}",
        f"{single.p50_ms:.3f}",
        f"{single.p95_ms:.3f}",
        f"{single.cpu_ms:.3f}",
        _cpu_at_32(card),
        f"{card.peak_rss_bytes / 1e6:.0f}",
        "; ".join((point.role.value, *point.failed)),
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _cpu_at_32(card: Scorecard) -> str:
    found = [latency.cpu_ms for latency in card.latencies if latency.batch == 32]  # noqa: PLR2004 - the larger batch
    return f"{found[0]:.3f}" if found else "not measured"
