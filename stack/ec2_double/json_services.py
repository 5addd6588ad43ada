"""Services with JSON bodies that the double answers itself: Pricing and Service Quotas."""

from __future__ import annotations

import json
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.errors import Answer
from stack.ec2_double.prices import answer_pricing
from stack.ec2_double.quotas import answer_quotas
from stack.ec2_double.wire import Call


def answer_json(account: Account, call: Call, *, request_id: str) -> Answer | None:
    """The answer, None for what is left to moto.

    Raises:
        AwsError: The request is refused.
    """
    result: dict[str, Any] | None = None
    if call.service == "pricing":
        result = answer_pricing(account, call.action, call.parameters)
    elif call.service == "servicequotas":
        result = answer_quotas(account, call.region, call.action, call.parameters)
    if result is None:
        return None
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": request_id}
    return 200, headers, json.dumps(result).encode()
