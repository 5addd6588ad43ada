"""Launching instances: what is refused and why, and the books of what is granted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from stack.ec2_double import network
from stack.ec2_double.account import Account
from stack.ec2_double.answers import tags_of
from stack.ec2_double.booking import book_spot_request, book_volumes
from stack.ec2_double.errors import AwsError
from stack.ec2_double.interfaces import book_interface
from stack.ec2_double.quotas import vcpus_left
from stack.ec2_double.records import Instance

_IMAGE = re.compile(r"ami-[0-9a-f]{8}([0-9a-f]{9})?|resolve:ssm:.+")
# "User data is limited to 16 KB, in raw form, before it is base64-encoded."
_MOST_USER_DATA = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """Instances of one kind in one zone.

    Attributes:
        region: Region.
        zone: Zone.
        instance_type: Type.
        purchase: ``spot`` or ``on-demand``.
        launch: Merged parameters, as RunInstances has them.
        max_price: Highest spot price per hour, None for the on-demand price.
        fleet_id: Fleet that orders it.
    """

    region: str
    zone: str
    instance_type: str
    purchase: str
    launch: Mapping[str, Any]
    max_price: str | None = None
    fleet_id: str | None = None


def check_parameters(launch: Mapping[str, Any]) -> None:
    """Refuse what EC2 refuses before it looks at capacity.

    Raises:
        AwsError: A parameter is missing or makes no sense.
    """
    image = launch.get("ImageId")
    if not image:
        raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
    if not _IMAGE.fullmatch(image):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image}"')
    if len(launch.get("UserData") or "") * 3 // 4 > _MOST_USER_DATA:
        raise AwsError("InvalidParameterValue", "User data is limited to 16384 bytes")
    options = (launch.get("InstanceMarketOptions") or {}).get("SpotOptions") or {}
    if options.get("SpotInstanceType", "one-time") != "one-time":
        raise AwsError("UnsupportedOperation", "the double has one-time spot requests only")


def refusal(account: Account, order: LaunchOrder) -> AwsError | None:
    """Why not even one such instance is launched now, None when it can be."""
    market, kind, zone = account.market, order.instance_type, order.zone
    if not market.knows(kind):
        return AwsError("InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
    if not market.offers(kind, zone) or not market.sells(kind, order.purchase):
        return AwsError(
            "Unsupported",
            f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone}).",
        )
    left = vcpus_left(account, instance_type=kind, purchase=order.purchase, region=order.region)
    if left is not None and left < market.vcpus(kind):
        return _over_quota(order)
    if order.purchase == "spot" and (dear := _too_dear(account, order)):
        return dear
    if room(account, order) < 1:
        return AwsError(
            "InsufficientInstanceCapacity",
            f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone}).",
        )
    return None


def _over_quota(order: LaunchOrder) -> AwsError:
    if order.purchase == "spot":
        return AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    return AwsError(
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit allows for the instance bucket that the "
        f"specified instance type ({order.instance_type}) belongs to.",
    )


def _too_dear(account: Account, order: LaunchOrder) -> AwsError | None:
    usd = price_now(account, order)
    if order.max_price is None or usd is None:
        return None
    try:
        most = Decimal(order.max_price)
    except InvalidOperation:
        return AwsError("InvalidParameterValue", f"Invalid value '{order.max_price}' for MaxPrice.")
    if usd <= most:
        return None
    return AwsError(
        "SpotMaxPriceTooLow",
        f"Your Spot request price of {most} is lower than the minimum required Spot request fulfillment price of "
        f"{usd}.",
    )


def price_now(account: Account, order: LaunchOrder) -> Decimal | None:
    """Price of such an instance now."""
    return account.market.usd_per_h(
        instance_type=order.instance_type,
        purchase=order.purchase,
        zone=order.zone,
        at_s=account.at_s(account.clock.now()),
    )


def room(account: Account, order: LaunchOrder) -> float:
    """Such instances that could be launched now, by capacity and quota."""
    kind = {"instance_type": order.instance_type, "purchase": order.purchase}
    most = account.market.capacity(**kind, zone=order.zone, at_s=account.at_s(account.clock.now()))
    free = most - len(account.occupied(**kind, zone=order.zone))
    left = vcpus_left(account, **kind, region=order.region)
    return free if left is None else min(free, left // account.market.vcpus(order.instance_type))


def launch(account: Account, order: LaunchOrder, *, count: int) -> list[Instance]:
    """Launch instances that `refusal` and `room` have found to be possible."""
    reservation = account.new_id("r")
    return [_launch_one(account, order, reservation_id=reservation) for _ in range(count)]


def _launch_one(account: Account, order: LaunchOrder, *, reservation_id: str) -> Instance:
    now = account.clock.now()
    number = len(account.instances)
    instance = Instance(
        instance_id=account.new_id("i"),
        region=order.region,
        zone=order.zone,
        instance_type=order.instance_type,
        purchase=order.purchase,
        usd_per_h=price_now(account, order),
        launched_at=now,
        boots_at=now + timedelta(seconds=account.timing.boot_s),
        launch=order.launch,
        tags=tags_of(order.launch, "instance"),
        reservation_id=reservation_id,
        subnet_id=network.subnet_id(order.zone),
        address=f"172.31.{number // 250 % 250}.{number % 250 + 4}",
        public_address=f"203.0.113.{number % 250 + 4}" if _wants_public(order.launch) else None,
        fleet_id=order.fleet_id,
        protected=bool(order.launch.get("DisableApiTermination")),
    )
    account.instances[instance.instance_id] = instance
    account.counts["instances_started"] += 1
    if order.purchase == "spot":
        account.started += 1
        instance.spot_number = account.started
        book_spot_request(account, instance)
    book_volumes(account, instance)
    book_interface(account, instance)
    return instance


def _wants_public(parameters: Mapping[str, Any]) -> bool:
    """Subnets of a default VPC give a public address unless the interface says otherwise."""
    interfaces = parameters.get("NetworkInterfaces") or [{}]
    return bool(interfaces[0].get("AssociatePublicIpAddress", True))
