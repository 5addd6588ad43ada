"""Services with JSON bodies that the double answers itself: Pricing and Service Quotas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.errors import Answer
from stack.ec2_double.prices import answer_pricing
from stack.ec2_double.quotas import answer_quotas
from stack.ec2_double.wire import Call


def json_result(account: Account, call: Call) -> dict[str, Any] | None:
    """The result, None for what is left to moto.

    Raises:
        AwsError: The request is refused.
    """
    if call.service == "pricing":
        return answer_pricing(account, call.action, call.parameters)
    if call.service == "servicequotas":
        return answer_quotas(account, call.region, call.action, call.parameters)
    return None


def write_json(action: str, result: Mapping[str, Any], *, request_id: str) -> Answer:  # noqa: ARG001 - as for XML
    """A result as the body of an answer."""
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": request_id}
    return 200, headers, json.dumps(result).encode()
