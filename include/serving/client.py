"""A client of one endpoint over one kept-alive connection; it measures what a user's request would take."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from include.core.errors import PlimsollError

_OK = 200
_TIMEOUT_S = 10.0


class InvocationError(PlimsollError):
    """The endpoint did not answer a good request with predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer.

    Attributes:
        predictions: One ``{"label", "probabilities"}`` per row.
        version: Version that answered.
        seconds: Wall seconds from sending to the last byte.
    """

    predictions: list[dict[str, Any]]
    version: str
    seconds: float


class EndpointClient:
    """Sends invocations to one endpoint. Use as a context manager.

    Args:
        url: Base URL of the server.
        endpoint: Name of the endpoint.
    """

    def __init__(self, url: str, endpoint: str) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=_TIMEOUT_S)
        self._path = f"{parts.path.rstrip('/')}/{endpoint}/invocations"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def invoke(self, body: dict[str, Any]) -> Answer:
        """Send one request.

        Raises:
            InvocationError: The server does not answer, or answers other than with predictions.
        """
        payload = json.dumps(body).encode()
        start = time.perf_counter()
        try:
            self._connection.request("POST", self._path, payload, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise InvocationError(f"{self._path}: no answer: {error!r}") from error
        seconds = time.perf_counter() - start
        if response.status != _OK:
            raise InvocationError(f"{self._path}: answers {response.status}: {text[:300].decode(errors='replace')}")
        return Answer(
            predictions=json.loads(text)["predictions"],
            version=response.headers.get("X-Model-Version", ""),
            seconds=seconds,
        )


def server_answers(url: str) -> bool:
    """Whether a model server answers ``/ping`` under a base URL."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/ping")
        return connection.getresponse().status == _OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
