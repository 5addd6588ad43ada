"""Job ``select``: gates, Pareto front, choice, and the pictures of the front."""

from __future__ import annotations

from include.config.job_messages import SelectResult
from include.core.errors import GateError, UserError
from include.core.json_codec import to_json
from include.evaluation.choice import decide
from include.evaluation.gates import check_gates
from include.evaluation.picture_html import draw_html
from include.evaluation.picture_png import draw_png
from include.evaluation.picture_points import Point, points
from include.jobs.context import JobContext


def run(context: JobContext) -> SelectResult:
    """Choose among ``request.scorecards`` under the gates of the workload.

    The pictures are written even when nothing passes: they show by how much.

    Raises:
        GateError: No candidate passes the gates, or the baseline is missing.
        UserError: The request has no scorecards.
    """
    request = context.request
    if not request.scorecards:
        raise UserError("select request is incomplete", where=request.base, found="no scorecards")
    checks = check_gates(request.scorecards, request.workload.gates)
    try:
        verdict = decide(request.scorecards, checks)
    except GateError:
        _draw(context, points(request.scorecards, checks=checks, front=(), chosen=None), "none passes the gates")
        raise
    drawn = points(request.scorecards, checks=checks, front=verdict.front, chosen=verdict.chosen)
    picture_uri, interactive_uri = _draw(context, drawn, f"{verdict.chosen} chosen")
    context.store.put_json(f"{request.run_prefix}/selection/verdict.json", to_json(verdict))
    context.progress(fraction=1.0, chosen=verdict.chosen)
    return SelectResult(verdict=verdict, picture_uri=picture_uri, interactive_uri=interactive_uri)


def _draw(context: JobContext, drawn: tuple[Point, ...], outcome: str) -> tuple[str, str]:
    """Write both pictures; returns their URIs."""
    title = f"{context.request.workload.name}: {outcome}"
    png_key, html_key = (f"{context.request.run_prefix}/selection/pareto.{suffix}" for suffix in ("png", "html"))
    context.store.put(png_key, draw_png(title, drawn))
    context.store.put(html_key, draw_html(title, drawn).encode())
    return context.store.uri(png_key), context.store.uri(html_key)
