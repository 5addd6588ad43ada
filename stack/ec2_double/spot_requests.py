"""Spot requests: described and cancelled. All are one-time, and fulfilled when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.resources import Thing, describe_things, find_thing, text_of


def describe_spot_instance_requests(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """DescribeSpotInstanceRequests."""
    shown, token = describe_things(
        account,
        region,
        parameters,
        kind="spot-request",
        ids="SpotInstanceRequestIds",
        code="InvalidSpotInstanceRequestID.NotFound",
        readers={
            "state": text_of("State"),
            "instance-id": text_of("InstanceId"),
            "spot-instance-request-id": text_of("SpotInstanceRequestId"),
            "status-code": text_of("Status", "Code"),
            "launched-availability-zone": text_of("LaunchedAvailabilityZone"),
        },
    )
    return {"SpotInstanceRequests": shown, "NextToken": token}


def cancel_spot_instance_requests(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """CancelSpotInstanceRequests: the instance of a request lives on, as on EC2."""
    cancelled = []
    for wanted in parameters["SpotInstanceRequestIds"]:
        code = "InvalidSpotInstanceRequestID.NotFound"
        request = find_thing(account, "spot-request", wanted, region=region, code=code)
        if request["State"] in {"open", "active"}:
            request["State"] = "cancelled"
        cancelled.append({"SpotInstanceRequestId": wanted, "State": request["State"]})
    return {"CancelledSpotInstanceRequests": cancelled}
