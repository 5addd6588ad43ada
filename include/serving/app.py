"""The HTTP face of the server: health, invocations in MLflow's scoring format, Prometheus metrics.

============================  ======================================================================================
``GET /ping``                 200 as long as the process answers: all endpoints with the versions that answer
``GET /<name>/ping``          200 when the endpoint answers, 404 when there is none of this name
``POST /<name>/invocations``  predictions; 400 bad body, 413 body too large, 503 with Retry-After when overloaded
``POST /invocations``         the same for the only endpoint; 503 when there is none, 404 when there are several
``GET /metrics``              Prometheus text format
============================  ======================================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from include.serving.artefact import predictions
from include.serving.batcher import OverloadedError
from include.serving.endpoints import Endpoint, EndpointTable
from include.serving.metrics import ServerMetrics
from include.serving.payload import BadBodyError, parse_body

_log = logging.getLogger("plimsoll.serving")
VERSION_HEADER = "X-Model-Version"
NAME_HEADER = "X-Model-Name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """What one request may take.

    Attributes:
        max_body_bytes: Largest body.
        deadline_s: Seconds a request may wait in the queue.
        retry_after_s: What an overloaded server tells the client to wait.
    """

    max_body_bytes: int = 4 * 1024 * 1024
    deadline_s: float = 1.0
    retry_after_s: int = 1


class _RefusalError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}


def build_app(*, table: EndpointTable, metrics: ServerMetrics, limits: RequestLimits | None = None) -> FastAPI:
    """The ASGI application around a table of endpoints, which it follows and closes."""
    limits = limits or RequestLimits()

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(table.follow())
        yield
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await table.close()

    app = FastAPI(title="Plimsoll model server", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    _add_health_routes(app, table, metrics)

    @app.post("/invocations")
    async def invoke_only(request: Request) -> Response:
        return await _guarded(None, request)

    @app.post("/{name}/invocations")
    async def invoke(name: str, request: Request) -> Response:
        return await _guarded(name, request)

    async def _guarded(name: str | None, request: Request) -> Response:
        started = asyncio.get_running_loop().time()
        # Only names that exist become label values: a label per made-up path would grow without bound.
        label = "unknown"
        try:
            label, _ = _find(table, name)
            answer = await _invoke(table, label, request, limits, started)
        except _RefusalError as refusal:
            metrics.errors.labels(label, refusal.reason).inc()
            answer = _error(refusal)
        metrics.requests.labels(label, str(answer.status_code)).inc()
        metrics.seconds.labels(label).observe(asyncio.get_running_loop().time() - started)
        return answer

    return app


def _add_health_routes(app: FastAPI, table: EndpointTable, metrics: ServerMetrics) -> None:
    @app.get("/ping")
    async def ping_all() -> Response:
        return _json({"endpoints": {name: item.model.served.version for name, item in table.endpoints.items()}})

    @app.get("/{name}/ping")
    async def ping(name: str) -> Response:
        return _ping(table, name)

    @app.get("/metrics")
    async def exposition() -> Response:
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4")


def _ping(table: EndpointTable, name: str) -> Response:
    try:
        found, endpoint = _find(table, name)
    except _RefusalError as refusal:
        return _error(refusal)
    return _json({"endpoint": found, "version": endpoint.model.served.version}, headers=_headers(endpoint))


def _find(table: EndpointTable, name: str | None) -> tuple[str, Endpoint]:
    known = sorted(table.endpoints)
    if name is None:
        if len(known) > 1:
            raise _RefusalError(404, "no_endpoint", f"several endpoints are served, name one: {_paths(known)}")
        if not known:
            raise _RefusalError(503, "no_model", "no model is loaded yet", retry_after_s=1)
        name = known[0]
    if name not in table.endpoints:
        raise _RefusalError(404, "no_endpoint", f"no endpoint of this name; served: {_paths(known) or 'none'}")
    return name, table.endpoints[name]


def _paths(names: list[str]) -> str:
    return ", ".join(f"/{name}/invocations" for name in names)


async def _invoke(table: EndpointTable, name: str, request: Request, limits: RequestLimits, started: float) -> Response:
    raw = await _body(request, limits.max_body_bytes)
    # Looked up after the body arrived and used without another wait until it is queued: a swap in between is harmless.
    _, endpoint = _find(table, name)
    try:
        rows = parse_body(raw, endpoint.model.manifest)
        logits = await endpoint.batcher.submit(rows, deadline=started + limits.deadline_s)
    except BadBodyError as error:
        raise _RefusalError(400, "bad_body", str(error)) from error
    except OverloadedError as error:
        raise _RefusalError(503, "overloaded", str(error), retry_after_s=limits.retry_after_s) from error
    except Exception as error:
        _log.exception("endpoint=%s version=%s failed on a request", name, endpoint.model.served.version)
        raise _RefusalError(500, "model_error", f"the model failed: {type(error).__name__}") from error
    answer = {"predictions": predictions(logits, endpoint.model.manifest.classes)}
    return _json(answer, headers=_headers(endpoint))


async def _body(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _RefusalError(413, "body_too_large", f"the body has {declared} bytes; at most {limit}")
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise _RefusalError(413, "body_too_large", f"the body has more than {limit} bytes")
            parts.append(part)
    except ClientDisconnect as error:
        raise _RefusalError(400, "disconnected", "the client went away") from error
    return b"".join(parts)


def _headers(endpoint: Endpoint) -> dict[str, str]:
    served = endpoint.model.served
    return {VERSION_HEADER: served.version, NAME_HEADER: served.model_name}


def _json(value: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(value), status_code=status, headers=headers, media_type="application/json")


def _error(refusal: _RefusalError) -> Response:
    body = {"error_code": refusal.reason.upper(), "message": str(refusal)}
    return _json(body, status=refusal.status, headers=refusal.headers)
