"""Errors as EC2 gives them: code, message, HTTP status, and the wire formats of AWS's protocols.

Statuses follow "Error codes for the Amazon EC2 API": client errors 4xx, server errors 5xx. Where that page gives none
for a code, 400 is used.
"""

from __future__ import annotations

import json
from html import escape
from http import HTTPStatus

STATUS = {
    "UnauthorizedOperation": 403,
    "AuthFailure": 401,
    "OptInRequired": 403,
    "Blocked": 403,
    "DryRunOperation": 412,
    "RequestLimitExceeded": 503,
    "Unavailable": 503,
    "InternalError": 500,
    "InternalFailure": 500,
    "InsufficientInstanceCapacity": 500,
    "InsufficientCapacityOnHost": 500,
    "InsufficientHostCapacity": 500,
    "InsufficientReservedInstanceCapacity": 500,
    "InsufficientAddressCapacity": 500,
    "InsufficientVolumeCapacity": 500,
    "ServerInternal": 500,
}


class AwsError(Exception):
    """A request that is refused.

    Args:
        code: Error code, as boto3 shows it.
        message: For people.
        status: HTTP status, None takes that of the code.
    """

    def __init__(self, code: str, message: str = "", *, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message or code
        self.status = status or STATUS.get(code, int(HTTPStatus.BAD_REQUEST))


class AnswerLostError(Exception):
    """The connection is cut before an answer comes."""


Answer = tuple[int, dict[str, str], bytes]


class RawAnswerError(Exception):
    """An answer that a test gives word by word.

    Args:
        answer: Status, headers, body.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__("an answer word by word")
        self.answer = answer


def error_answer(error: AwsError, *, protocol: str, request_id: str) -> Answer:
    """The error in the wire format of a protocol: ``ec2``, ``query``, ``json`` or ``rest`` (S3's XML)."""
    if protocol == "json":
        body = json.dumps({"__type": error.code, "message": error.message})
        headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": request_id}
        return error.status, headers, body.encode()
    code, message = escape(error.code), escape(error.message)
    inner = f"<Code>{code}</Code><Message>{message}</Message>"
    if protocol == "ec2":
        body = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
    elif protocol == "query":
        body = f"<ErrorResponse><Error>{inner}</Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    else:
        body = f"<Error>{inner}<RequestId>{request_id}</RequestId></Error>"
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'
    return error.status, {"Content-Type": "text/xml;charset=UTF-8", "x-amzn-RequestId": request_id}, text.encode()
