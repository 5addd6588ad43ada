"""The front as a PNG."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from include.evaluation.picture_points import AXES, COLOURS, Axis, Point, Role, logarithmic_ticks

# Colour alone does not tell roles apart for everyone.
_MARKERS = {Role.CHOSEN: "*", Role.FRONT: "o", Role.DOMINATED: "s", Role.REFUSED: "X"}
_PERCENT = 100
_SHOWN_AXES = AXES[:2]


def draw_png(title: str, points: tuple[Point, ...]) -> bytes:
    """Test accuracy with its 95 % interval against size and against CPU time, as PNG.

    Args:
        title: Heading.
        points: All candidates.
    """
    # The object interface needs no display and leaves no state behind, unlike pyplot.
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(_SHOWN_AXES), sharey=True)
    for panel, axis in zip(panels, _SHOWN_AXES, strict=True):
        _draw_panel(panel, axis, points)
    panels[0].set_ylabel("Test accuracy (%), 95 % interval")
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=len(Role), frameon=False)
    figure.suptitle(_plain(title))
    out = BytesIO()
    canvas.print_png(out)
    return out.getvalue()


def _draw_panel(panel: Any, axis: Axis, points: tuple[Point, ...]) -> None:  # noqa: ANN401 - matplotlib is untyped
    for number, point in enumerate(points):
        x, y = axis.value(point.card), point.card.accuracy * _PERCENT
        low, high = point.card.accuracy_low * _PERCENT, point.card.accuracy_high * _PERCENT
        panel.errorbar(
            x,
            y,
            yerr=[[y - low], [high - y]],
            fmt=_MARKERS[point.role],
            color=COLOURS[point.role],
            markersize=13 if point.role is Role.CHOSEN else 8,
            capsize=3,
            elinewidth=1,
            label=point.role.value,
        )
        # Candidates often lie close together: each label gets a height of its own.
        panel.annotate(
            _plain(point.card.recipe),
            (x, y),
            xytext=(7, 9 + 12 * number),
            textcoords="offset points",
            fontsize=8,
            color=COLOURS[point.role],
        )
    panel.set_xscale("log")
    ticks = logarithmic_ticks([axis.value(point.card) for point in points])
    panel.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.set_xlim(ticks[0], ticks[-1])
    panel.set_xlabel(axis.label)
    panel.grid(visible=True, which="both", linewidth=0.4, alpha=0.4)


def _plain(text: str) -> str:
    """Text that matplotlib shows as it is: dollar signs would start a formula."""
    return text.replace("$", r"\$")
