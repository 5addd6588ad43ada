"""The default network of each region: one VPC, one subnet per zone, one security group. It is the only one there is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, select
from stack.ec2_double.errors import AwsError

_BLOCK = "172.31"


def _fixed_id(prefix: str, name: str) -> str:
    return f"{prefix}-{hashlib.sha256(name.encode()).hexdigest()[:17]}"


def vpc_id(region: str) -> str:
    """The VPC of a region."""
    return _fixed_id("vpc", region)


def group_id(region: str) -> str:
    """The default security group of a region."""
    return _fixed_id("sg", region)


def subnet_id(zone: str) -> str:
    """The subnet of a zone."""
    return _fixed_id("subnet", zone)


def zone_of_subnet(account: Account, wanted: str, *, region: str) -> str:
    """Zone of a subnet.

    Raises:
        AwsError: There is no such subnet.
    """
    for zone in account.market.zones(region):
        if subnet_id(zone) == wanted:
            return zone
    raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{wanted}' does not exist")


def zone_id(account: Account, zone: str) -> str:
    """Id of a zone, such as ``use1-az1``; here in the order of the names."""
    region, position = zone[:-1], account.market.zones(zone[:-1]).index(zone) + 1
    area, direction, number = region.split("-")[-3:]
    return f"{area}{direction[0]}{number}-az{position}"


def describe_subnets(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeSubnets."""
    wanted = parameters.get("SubnetIds")
    zones = account.market.zones(region)
    for entry in wanted or ():
        zone_of_subnet(account, entry, region=region)
    subnets = [
        {
            "SubnetId": subnet_id(zone),
            "SubnetArn": f"arn:aws:ec2:{region}:{account.account_id}:subnet/{subnet_id(zone)}",
            "VpcId": vpc_id(region),
            "AvailabilityZone": zone,
            "AvailabilityZoneId": zone_id(account, zone),
            "CidrBlock": f"{_BLOCK}.{16 * position}.0/20",
            "AvailableIpAddressCount": 4091,
            "DefaultForAz": True,
            "MapPublicIpOnLaunch": True,
            "State": "available",
            "OwnerId": account.account_id,
        }
        for position, zone in enumerate(zones)
        if not wanted or subnet_id(zone) in wanted
    ]
    readers = {
        "availability-zone": "AvailabilityZone", "availabilityZone": "AvailabilityZone", "subnet-id": "SubnetId",
        "vpc-id": "VpcId", "state": "State", "availability-zone-id": "AvailabilityZoneId",
    }  # fmt: skip
    chosen = select(
        subnets,
        parameters.get("Filters"),
        readers={
            **{name: _member(key) for name, key in readers.items()},
            "default-for-az": lambda _: "true",
            "defaultForAz": lambda _: "true",
        },
        tags=lambda _: {},
    )
    shown, token = page(chosen, parameters)
    return {"Subnets": shown, "NextToken": token}


def _member(key: str) -> Any:  # noqa: ANN401 - a reader of any text member
    return lambda thing: thing[key]


def describe_vpcs(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeVpcs."""
    vpc = {
        "VpcId": vpc_id(region),
        "CidrBlock": f"{_BLOCK}.0.0/16",
        "IsDefault": True,
        "State": "available",
        "OwnerId": account.account_id,
    }
    readers = {
        "vpc-id": _member("VpcId"),
        "state": _member("State"),
        "is-default": lambda _: "true",
        "isDefault": lambda _: "true",
    }
    return {"Vpcs": select([vpc], parameters.get("Filters"), readers=readers, tags=lambda _: {})}


def describe_security_groups(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeSecurityGroups."""
    group = {
        "GroupId": group_id(region),
        "GroupName": "default",
        "Description": "default VPC security group",
        "VpcId": vpc_id(region),
        "OwnerId": account.account_id,
    }
    for wanted in parameters.get("GroupIds") or ():
        if wanted != group["GroupId"]:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{wanted}' does not exist")
    readers = {"group-id": _member("GroupId"), "group-name": _member("GroupName"), "vpc-id": _member("VpcId")}
    return {"SecurityGroups": select([group], parameters.get("Filters"), readers=readers, tags=lambda _: {})}


def describe_availability_zones(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeAvailabilityZones."""
    zones = [
        {
            "ZoneName": zone,
            "ZoneId": zone_id(account, zone),
            "RegionName": region,
            "State": "available",
            "OptInStatus": "opt-in-not-required",
            "ZoneType": "availability-zone",
            "GroupName": region,
        }
        for zone in account.market.zones(region)
        if zone in (parameters.get("ZoneNames") or [zone])
    ]
    readers = {
        "zone-name": _member("ZoneName"),
        "zone-id": _member("ZoneId"),
        "state": _member("State"),
        "region-name": _member("RegionName"),
        "zone-type": _member("ZoneType"),
        "opt-in-status": _member("OptInStatus"),
    }
    return {"AvailabilityZones": select(zones, parameters.get("Filters"), readers=readers, tags=lambda _: {})}
