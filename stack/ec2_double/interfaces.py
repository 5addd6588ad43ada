"""Network interfaces and what binds addresses to them, and machine images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stack.ec2_double import network
from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, read_tags, select, shown_tags, tags_of
from stack.ec2_double.errors import AwsError
from stack.ec2_double.records import Instance

_KIND = "network-interface"


def book_interface(account: Account, instance: Instance) -> None:
    """The network interface that comes with an instance."""
    asked = (instance.launch.get("NetworkInterfaces") or [{}])[0]
    interface = _interface(
        account,
        region=instance.region,
        subnet=instance.subnet_id,
        zone=instance.zone,
        tags=tags_of(instance.launch, _KIND),
    )
    interface["PrivateIpAddress"] = instance.address
    interface["Status"] = "in-use"
    interface["Attachment"] = {
        "AttachmentId": account.new_id("eni-attach"),
        "InstanceId": instance.instance_id,
        "DeviceIndex": 0,
        "Status": "attached",
        "AttachTime": instance.launched_at,
        "DeleteOnTermination": bool(asked.get("DeleteOnTermination", True)),
    }


def _interface(account: Account, *, region: str, subnet: str, zone: str, tags: Mapping[str, str]) -> dict[str, Any]:
    interface_id = account.new_id("eni")
    interface: dict[str, Any] = {
        "Region": region,
        "NetworkInterfaceId": interface_id,
        "SubnetId": subnet,
        "VpcId": network.vpc_id(region),
        "AvailabilityZone": zone,
        "OwnerId": account.account_id,
        "Status": "available",
        "Tags": shown_tags(tags),
    }
    account.kind(_KIND)[interface_id] = interface
    return interface


def release_interfaces(account: Account, instance: Instance) -> None:
    """An instance has ended: its interfaces go with it, unless they were told to stay."""
    interfaces = account.kind(_KIND)
    for interface_id, interface in list(interfaces.items()):
        attachment = interface.get("Attachment") or {}
        if attachment.get("InstanceId") != instance.instance_id:
            continue
        if attachment["DeleteOnTermination"]:
            del interfaces[interface_id]
        else:
            interface["Status"] = "available"
            del interface["Attachment"]


def _shown(interface: Mapping[str, Any]) -> dict[str, Any]:
    """This description alone names its tags otherwise."""
    kept = {key: value for key, value in interface.items() if key not in {"Region", "Tags"}}
    return {**kept, "TagSet": interface["Tags"]}


def create_network_interface(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """CreateNetworkInterface."""
    subnet = parameters["SubnetId"]
    zone = network.zone_of_subnet(account, subnet, region=region)
    tags = tags_of(parameters, _KIND)
    return {"NetworkInterface": _shown(_interface(account, region=region, subnet=subnet, zone=zone, tags=tags))}


def describe_network_interfaces(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeNetworkInterfaces."""
    wanted = parameters.get("NetworkInterfaceIds")
    every = [each for each in account.kind(_KIND).values() if each["Region"] == region]
    found = [_find(account, each, region=region) for each in wanted] if wanted else every
    readers = {
        "network-interface-id": lambda each: str(each["NetworkInterfaceId"]),
        "status": lambda each: str(each["Status"]),
        "subnet-id": lambda each: str(each["SubnetId"]),
        "attachment.instance-id": lambda each: (each.get("Attachment") or {}).get("InstanceId"),
    }
    chosen = select(found, parameters.get("Filters"), readers=readers, tags=lambda each: read_tags(each["Tags"]))
    shown, token = page(chosen, parameters)
    return {"NetworkInterfaces": [_shown(each) for each in shown], "NextToken": token}


def _find(account: Account, wanted: str, *, region: str) -> dict[str, Any]:
    found = account.kind(_KIND).get(wanted)
    if found is None or found["Region"] != region:
        raise AwsError("InvalidNetworkInterfaceID.NotFound", f"The networkInterface ID '{wanted}' does not exist")
    return found


def delete_network_interface(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteNetworkInterface: not of one that an instance has."""
    interface = _find(account, parameters["NetworkInterfaceId"], region=region)
    if interface.get("Attachment"):
        raise AwsError(
            "InvalidParameterValue", f"Network interface '{interface['NetworkInterfaceId']}' is currently in use."
        )
    del account.kind(_KIND)[interface["NetworkInterfaceId"]]
    return {}


def associate_address(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """AssociateAddress with an instance."""
    address = _address(account, region, AllocationId=parameters.get("AllocationId"))
    instance = account.instance(parameters["InstanceId"], region=region)
    address |= {"AssociationId": account.new_id("eipassoc"), "InstanceId": instance.instance_id}
    return {"AssociationId": address["AssociationId"]}


def disassociate_address(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DisassociateAddress."""
    address = _address(account, region, AssociationId=parameters.get("AssociationId"))
    for key in ("AssociationId", "InstanceId"):
        address.pop(key, None)
    return {}


def _address(account: Account, region: str, **wanted: str | None) -> dict[str, Any]:
    ((key, value),) = wanted.items()
    for address in account.kind("address").values():
        if address["Region"] == region and value is not None and address.get(key) == value:
            return address
    raise AwsError(f"Invalid{key.replace('Id', 'ID')}.NotFound", f"The {key} '{value}' does not exist")


def describe_images(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """DescribeImages by id: every well-formed id is a Linux image with one root volume. Others are left to moto."""
    ids = parameters.get("ImageIds")
    if not ids:
        return None
    for image in ids:
        if not image.startswith("ami-"):
            raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image}" (expecting "ami-...")')
    root = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8, "VolumeType": "gp3", "DeleteOnTermination": True}}
    images = [
        {
            "ImageId": image,
            "ImageLocation": f"{region}/{image}",
            "State": "available",
            "OwnerId": account.account_id,
            "Architecture": "x86_64",
            "ImageType": "machine",
            "RootDeviceName": root["DeviceName"],
            "RootDeviceType": "ebs",
            "VirtualizationType": "hvm",
            "BlockDeviceMappings": [root],
        }
        for image in ids
    ]
    return {"Images": images}
