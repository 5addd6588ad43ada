"""The front as one self-contained interactive page: chart, table and a little script, nothing from elsewhere."""

from __future__ import annotations

from html import escape

from include.core.contracts.scorecard import Scorecard
from include.evaluation.gates import latency_at
from include.evaluation.latency import BATCHED, SINGLE
from include.evaluation.picture_points import AXES, Point
from include.evaluation.picture_svg import draw_svg

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem;color:#1c1c1c;background:#fff}
svg{max-width:100%;height:auto} svg text{font-size:12px;fill:#333} .axis{stroke:#888} .grid{stroke:#e4e4e4}
.point{cursor:pointer} .point:focus{outline:none} .point:focus circle,.point:hover circle{stroke:#000}
table{border-collapse:collapse;margin-top:1rem} th,td{padding:.3rem .7rem;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left} tr.on{background:#fff6d6}
#detail{min-height:1.5em;font-weight:600} label{margin-right:1rem}
"""

# Ties points, table rows and the line of detail together, and moves the points when another quantity is picked.
_SCRIPT = """
const detail = document.getElementById("detail");
const points = [...document.querySelectorAll(".point")], rows = [...document.querySelectorAll("tbody tr")];
function show(shown) {
  rows.forEach((row, i) => row.classList.toggle("on", i === shown));
  detail.textContent = shown === null ? "" : points[shown].querySelector("title").textContent;
}
function pick(axis) {
  for (const point of points)
    point.setAttribute("transform", `translate(${point.getAttribute("data-x-" + axis)} ${point.dataset.y})`);
  for (const ticks of document.querySelectorAll(".ticks"))
    ticks.setAttribute("visibility", ticks.dataset.axis === axis ? "visible" : "hidden");
}
for (const [elements, on, off] of [[points, "mouseenter", "mouseleave"], [points, "focus", "blur"],
                                   [rows, "mouseenter", "mouseleave"]])
  elements.forEach((element, i) => {
    element.addEventListener(on, () => show(i));
    element.addEventListener(off, () => show(null));
  });
for (const input of document.querySelectorAll("input[name=axis]"))
  input.addEventListener("change", () => pick(input.value));
"""


def draw_html(title: str, points: tuple[Point, ...]) -> str:
    """Page with the front; without scripts it still shows accuracy against size and the table.

    Args:
        title: Heading.
        points: At least one candidate.
    """
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = (
        f"<h1>{escape(title)}</h1>{_controls()}{draw_svg(points)}"
        f'<p id="detail" aria-live="polite"></p>{_table(points)}<script>{_SCRIPT}</script>'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _controls() -> str:
    options = "".join(
        f'<label><input type="radio" name="axis" value="{axis.name}"{"" if number else " checked"}> '
        f"{escape(axis.label)}</label>"
        for number, axis in enumerate(AXES)
    )
    return f"<p>Test accuracy against: {options}</p>"


def _table(points: tuple[Point, ...]) -> str:
    titles = (
        "recipe", "validation", "test", "kB", "p50 ms", "p95 ms", "CPU ms", f"CPU ms, batch {BATCHED}", "MB", "role",
    )  # fmt: skip
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(map(_row, points))}</tbody></table>"


def _row(point: Point) -> str:
    card = point.card
    single = latency_at(card, SINGLE)
    cells = (
        card.recipe,
        f"{card.validation_accuracy:.2%}",
        f"{card.accuracy:.2%}",
        f"{card.size_bytes / 1e3:.1f}",
        f"{single.p50_ms:.3f}",
        f"{single.p95_ms:.3f}",
        f"{single.cpu_ms:.3f}",
        _batched_cpu(card),
        f"{card.peak_rss_bytes / 1e6:.0f}",
        "; ".join((point.role.value, *point.failed)),
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _batched_cpu(card: Scorecard) -> str:
    found = [latency.cpu_ms for latency in card.latencies if latency.batch == BATCHED]
    return f"{found[0]:.3f}" if found else "not measured"
