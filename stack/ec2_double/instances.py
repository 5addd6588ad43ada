"""Actions on instances: run, describe, terminate, stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stack.ec2_double import network
from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, select
from stack.ec2_double.errors import AwsError
from stack.ec2_double.instance_view import show_instance, show_state
from stack.ec2_double.launching import LaunchOrder, check_parameters, launch, refusal, room
from stack.ec2_double.records import STATE_CODES, USER_ENDED, Instance, InstanceState
from stack.ec2_double.templates import with_template
from stack.ec2_double.transitions import begin_end

_READERS = {
    "instance-id": lambda found: found.instance_id,
    "instance-state-name": lambda found: found.state.value,
    "instance-state-code": lambda found: str(STATE_CODES[found.state]),
    "instance-type": lambda found: found.instance_type,
    # On-demand instances have no life cycle in EC2's eyes.
    "instance-lifecycle": lambda found: "spot" if found.purchase == "spot" else None,
    "availability-zone": lambda found: found.zone,
    "image-id": lambda found: found.launch.get("ImageId"),
    "client-token": lambda found: found.launch.get("ClientToken"),
    "subnet-id": lambda found: found.subnet_id,
    "vpc-id": lambda found: network.vpc_id(found.region),
    "reservation-id": lambda found: found.reservation_id,
    "spot-instance-request-id": lambda found: found.spot_request_id,
    "private-ip-address": lambda found: found.address,
}


def run_instances(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """RunInstances: between MinCount and MaxCount instances in one zone."""
    merged = with_template(account, parameters, region=region)
    check_parameters(merged)
    least, most = int(parameters["MinCount"]), int(parameters["MaxCount"])
    if not 1 <= least <= most:
        raise AwsError("InvalidParameterValue", f"MinCount {least} and MaxCount {most} make no sense")
    orders = _orders(account, merged, region=region)
    reasons = [refusal(account, order) for order in orders]
    able = [order for order, reason in zip(orders, reasons, strict=True) if reason is None]
    fitting = [order for order in able if room(account, order) >= least]
    if not fitting:
        raise next((reason for reason in reasons if reason), None) or _too_few(orders[0])
    order = fitting[0]
    launched = launch(account, order, count=int(min(most, room(account, order))))
    return show_reservation(account, launched)


def _too_few(order: LaunchOrder) -> AwsError:
    return AwsError(
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {order.instance_type} capacity in the Availability Zone you requested "
        f"({order.zone}).",
    )


def _orders(account: Account, merged: Mapping[str, Any], *, region: str) -> list[LaunchOrder]:
    """One order per zone that may be used: the named one, else all."""
    market = merged.get("InstanceMarketOptions") or {}
    purchase = "spot" if market.get("MarketType") == "spot" else "on-demand"
    zone = _named_zone(account, merged, region=region)
    if not merged.get("InstanceType"):
        raise AwsError("MissingParameter", "The request must contain the parameter InstanceType")
    return [
        LaunchOrder(
            region=region,
            zone=each,
            instance_type=merged["InstanceType"],
            purchase=purchase,
            launch=merged,
            max_price=(market.get("SpotOptions") or {}).get("MaxPrice"),
        )
        for each in ([zone] if zone else account.market.zones(region))
    ]


def _named_zone(account: Account, merged: Mapping[str, Any], *, region: str) -> str | None:
    interfaces = merged.get("NetworkInterfaces") or [{}]
    if subnet := merged.get("SubnetId") or interfaces[0].get("SubnetId"):
        return network.zone_of_subnet(account, subnet, region=region)
    zone = (merged.get("Placement") or {}).get("AvailabilityZone")
    if zone and zone not in account.market.zones(region):
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
    return zone or None


def show_reservation(account: Account, instances: list[Instance]) -> dict[str, Any]:
    """Instances of one reservation as they are now."""
    return {
        "ReservationId": instances[0].reservation_id,
        "OwnerId": account.account_id,
        "Instances": [show_instance(account, found) for found in instances],
    }


def describe_instances(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeInstances."""
    wanted = parameters.get("InstanceIds")
    found = [account.instance(each, region=region) for each in wanted] if wanted else list(account.shown(region))
    chosen = select(found, parameters.get("Filters"), readers=_READERS, tags=lambda each: each.tags)
    shown, token = page(chosen, parameters)
    reservations: dict[str, list[Instance]] = {}
    for instance in shown:
        reservations.setdefault(instance.reservation_id, []).append(instance)
    return {
        "Reservations": [show_reservation(account, group) for group in reservations.values()],
        "NextToken": token,
    }


def describe_instance_status(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeInstanceStatus: of running instances, or of all on request."""
    wanted = parameters.get("InstanceIds")
    found = [account.instance(each, region=region) for each in wanted] if wanted else list(account.shown(region))
    if not parameters.get("IncludeAllInstances"):
        found = [each for each in found if each.state is InstanceState.RUNNING]
    chosen = select(found, parameters.get("Filters"), readers=_READERS, tags=lambda each: each.tags)
    shown, token = page(chosen, parameters)
    return {"InstanceStatuses": [_status(each) for each in shown], "NextToken": token}


def _status(instance: Instance) -> dict[str, Any]:
    word = "ok" if instance.state is InstanceState.RUNNING else "not-applicable"
    return {
        "InstanceId": instance.instance_id,
        "AvailabilityZone": instance.zone,
        "InstanceState": show_state(instance.state),
        "InstanceStatus": {"Status": word},
        "SystemStatus": {"Status": word},
    }


def terminate_instances(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """TerminateInstances: all that are named, or none of them."""
    found = [account.instance(each, region=region) for each in parameters["InstanceIds"]]
    for instance in found:
        if instance.protected:
            raise AwsError(
                "OperationNotPermitted",
                f"The instance '{instance.instance_id}' may not be terminated. Modify its 'disableApiTermination' "
                "instance attribute and try again.",
            )
    return {"TerminatingInstances": [_changed(account, each, terminate=True) for each in found]}


def stop_instances(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """StopInstances: not of spot instances of a one-time request."""
    found = [account.instance(each, region=region) for each in parameters["InstanceIds"]]
    for instance in found:
        if instance.purchase == "spot":
            raise AwsError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{instance.instance_id}' because it is associated with a one-time "
                "Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance "
                "requests.",
            )
        if instance.state in {InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED}:
            raise AwsError(
                "IncorrectInstanceState",
                f"The instance '{instance.instance_id}' is not in a state from which it can be stopped.",
            )
    return {"StoppingInstances": [_changed(account, each, terminate=False) for each in found]}


def _changed(account: Account, instance: Instance, *, terminate: bool) -> dict[str, Any]:
    before = instance.state
    begin_end(account, instance, reason=USER_ENDED, at=account.clock.now(), terminate=terminate)
    return {
        "InstanceId": instance.instance_id,
        "PreviousState": show_state(before),
        "CurrentState": show_state(instance.state),
    }
