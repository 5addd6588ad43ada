"""What a request asks for: service, region, action and parameters, read from its signature and body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_SCOPE = re.compile(r"Credential=[^/,]+/\d{8}/([^/]+)/([^/]+)/")
_FORM = "application/x-www-form-urlencoded"
DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to AWS.

    Attributes:
        service: Name that it is signed for, such as ``ec2``; empty for an unsigned one.
        region: Region that it is signed for.
        action: Name of the action; method and path for REST services.
        parameters: Parameters: flat texts for ``ec2`` and ``query``, the parsed document for ``json``, else empty.
        protocol: ``ec2``, ``query``, ``json`` or ``rest``.
        request: The request that it came with, None for a call that was made without one.
    """

    service: str
    region: str
    action: str
    protocol: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    request: HttpRequest | None = None


def read_call(request: HttpRequest) -> Call:
    """Read a request. Its path may carry a query; header names count in any case."""
    known, body = {name.lower(): value for name, value in request.headers.items()}, request.body
    scope = _SCOPE.search(known.get("authorization", ""))
    region, service = (scope.group(1), scope.group(2)) if scope else (DEFAULT_REGION, "")
    common: dict[str, Any] = {"service": service, "region": region, "request": request}
    if target := known.get("x-amz-target"):
        document = json.loads(body or b"{}")
        return Call(**common, action=target.rpartition(".")[2], parameters=document, protocol="json")
    if known.get("content-type", "").startswith(_FORM):
        flat = dict(parse_qsl(body.decode(), keep_blank_values=True))
        if action := flat.pop("Action", ""):
            flat.pop("Version", None)
            protocol = "ec2" if service == "ec2" else "query"
            return Call(**common, action=action, parameters=flat, protocol=protocol)
    return Call(**common, action=f"{request.method} {urlsplit(request.path).path}", protocol="rest")
