"""The dashboard's app. Airflow mounts plugin apps without a guard, so every route carries Airflow's own check."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import AccessView, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query
from fastapi.responses import HTMLResponse, Response

from include.config.settings import Settings
from include.core.errors import PlimsollError
from include.core.ids import run_prefix
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from plimsoll.dashboard.data_docs import newest_report, report_page
from plimsoll.dashboard.run_view import recent_runs, run_view
from plimsoll.dashboard.team_view import team_view

_PAGE = Path(__file__).with_name("page.html")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,249}$")
_PICTURES = {"pareto.png": "image/png", "pareto.html": "text/html"}
# The interactive picture runs its own small script in a sandbox of its own: no same-origin access, no network.
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; sandbox allow-scripts"

app = FastAPI(
    title="Plimsoll",
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
)

DagId = Annotated[str, Query(max_length=250, pattern=_NAME.pattern)]
RunId = Annotated[str, Query(min_length=1, max_length=250)]


def _sources() -> tuple[ObjectStore, Ledger]:
    settings = Settings.from_environment()
    return ObjectStore(settings.store), Ledger(settings.ledger)


@app.get("/", response_class=HTMLResponse)
def page() -> HTMLResponse:
    """The page; it fetches its data from the routes below and writes it as text, never as markup."""
    return HTMLResponse(_PAGE.read_text(encoding="utf-8"), headers={"Cache-Control": "no-store"})


@app.get("/api/runs")
def runs() -> list[dict[str, Any]]:
    """The latest runs that the ledger knows, newest first."""
    _, ledger = _sources()
    return recent_runs(ledger)


@app.get("/api/run")
def run(dag_id: DagId, run_id: RunId) -> dict[str, Any]:
    """Plan, cost, carbon, verdict and leases of one run."""
    store, ledger = _sources()
    return run_view(store=store, ledger=ledger, dag_id=dag_id, run_id=run_id)


@app.get("/api/teams")
def teams() -> dict[str, Any]:
    """What each team holds and may hold, and who waits."""
    _, ledger = _sources()
    return team_view(ledger, Settings.from_environment())


@app.get("/data-docs")
def data_docs(dag_id: DagId, run_id: RunId) -> Response:
    """The validation report of a run."""
    store, _ = _sources()
    return newest_report(store, dag_id=dag_id, run_id=run_id)


@app.get("/data-docs/{dag_id}/{key}/{attempt}/{path:path}")
def data_docs_page(dag_id: str, key: str, attempt: str, path: str) -> Response:
    """One page of a validation report."""
    store, _ = _sources()
    return report_page(store, dag_id=dag_id, key=key, attempt=attempt, path=path)


@app.get("/api/picture")
def picture(dag_id: DagId, run_id: RunId, name: str) -> Response:
    """The Pareto picture of a run, as PNG or as an interactive page.

    Raises:
        HTTPException: 404 where there is no such picture.
    """
    if name not in _PICTURES:
        raise HTTPException(404, f"no picture {name!r}; allowed: {', '.join(_PICTURES)}")
    store, _ = _sources()
    try:
        data = store.get(f"{run_prefix(workload=dag_id, run_id=run_id)}/selection/{name}")
    except PlimsollError as error:
        raise HTTPException(404, str(error)) from error
    if data is None:
        raise HTTPException(404, "this run has no picture yet: it is drawn by the task `select`")
    headers = {"Content-Security-Policy": _PICTURE_POLICY, "X-Content-Type-Options": "nosniff"}
    return Response(data, media_type=_PICTURES[name], headers=headers)
