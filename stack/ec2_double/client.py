"""Boto3 clients whose requests never leave the process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from stack.ec2_double.ec2_xml import shared_session
from stack.ec2_double.errors import Answer, AnswerLostError

Handle = Callable[..., Answer]


class _Body(io.BytesIO):
    """A body as botocore reads one."""

    def stream(self, **_: object) -> Iterator[bytes]:
        """All of it."""
        yield self.read()


def in_process_client(handle: Handle, *, service: str, region: str, config: Any = None) -> Any:  # noqa: ANN401 - botocore
    """A boto3 client that gives its requests to ``handle``.

    Args:
        handle: `Ec2Double.handle`.
        service: Service.
        region: Region.
        config: ``botocore.config.Config``; None makes no retries, so that a test sees each answer.
    """
    from botocore.config import Config

    client = shared_session().create_client(
        service,
        region_name=region,
        aws_access_key_id="DOUBLE0000000000TEST",
        aws_secret_access_key="double",  # noqa: S106 - a signature nobody checks
        config=config or Config(retries={"total_max_attempts": 1}),
    )
    client.meta.events.register("before-send", _sender(handle))
    return client


def _sender(handle: Handle) -> Callable[..., Any]:
    from botocore.awsrequest import AWSResponse
    from botocore.exceptions import ConnectionClosedError

    def send(request: Any, **_: object) -> Any:  # noqa: ANN401 - botocore has no types
        parts = urlsplit(request.url)
        headers = {name: _text(value) for name, value in request.headers.items()}
        try:
            status, answered, body = handle(
                request.method,
                f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/",
                {"Host": parts.netloc, **headers},
                _bytes(request.body),
            )
        except AnswerLostError as error:
            raise ConnectionClosedError(endpoint_url=request.url, error=error) from error
        return AWSResponse(request.url, status, _headers(answered), _Body(body))

    return send


def _headers(answered: Mapping[str, str]) -> Any:  # noqa: ANN401 - botocore has no types
    from botocore.compat import HTTPHeaders

    headers = HTTPHeaders()
    for name, value in answered.items():
        headers[name] = value
    return headers


def _text(value: Any) -> str:  # noqa: ANN401 - text or bytes
    return value.decode() if isinstance(value, bytes) else str(value)


def _bytes(body: Any) -> bytes:  # noqa: ANN401 - text, bytes, a file or nothing
    if body is None:
        return b""
    if hasattr(body, "read"):
        return bytes(body.read())
    return body.encode() if isinstance(body, str) else bytes(body)
