"""Serves the Data Docs that a validation wrote into the store."""

from __future__ import annotations

import mimetypes
import re

from fastapi import HTTPException
from fastapi.responses import RedirectResponse, Response

from include.core.errors import PlimsollError
from include.core.ids import run_key
from include.core.store import ObjectStore

_ATTEMPT = re.compile(r"/validation/(attempt-\d+)/docs/index\.html$")
_SEGMENT = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
# The pages are written from the user's data: they may style and script themselves, but reach neither Airflow's cookies
# nor anything outside.
_POLICY = "default-src 'self' data: 'unsafe-inline'; sandbox allow-scripts"


def newest_report(store: ObjectStore, *, dag_id: str, run_id: str) -> RedirectResponse:
    """Send the reader to the report of the run's last validation.

    Raises:
        HTTPException: 404 where there is none.
    """
    key = run_key(run_id)
    keys = (name for name, _ in store.list(f"runs/{dag_id}/{key}/validation"))
    attempts = [found[1] for name in keys if (found := _ATTEMPT.search(name))]
    if not attempts:
        raise HTTPException(404, "this run has no validation report: it is written by the task `validate`")
    newest = max(attempts, key=lambda attempt: int(attempt.rpartition("-")[2]))
    # Relative, so that it also works behind a proxy that adds a prefix.
    return RedirectResponse(f"data-docs/{dag_id}/{key}/{newest}/index.html")


def report_page(store: ObjectStore, *, dag_id: str, key: str, attempt: str, path: str) -> Response:
    """One file of a report.

    Raises:
        HTTPException: 404 where there is none.
    """
    names = (dag_id, key, attempt, *path.split("/"))
    if not all(_SEGMENT.match(name) for name in names):
        raise HTTPException(404, "no such page")
    try:
        data = store.get(f"runs/{dag_id}/{key}/validation/{attempt}/docs/{path}")
    except PlimsollError as error:
        raise HTTPException(404, str(error)) from error
    if data is None:
        raise HTTPException(404, "no such page")
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return Response(
        data, media_type=kind, headers={"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
    )
