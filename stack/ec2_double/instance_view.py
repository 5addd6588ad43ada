"""An instance as DescribeInstances shows it."""

from __future__ import annotations

from typing import Any

from stack.ec2_double import network
from stack.ec2_double.account import Account
from stack.ec2_double.answers import shown_tags
from stack.ec2_double.records import STATE_CODES, EndReason, Instance, InstanceState

# What EC2 takes for metadata options that nobody names.
_METADATA = {
    "State": "applied",
    "HttpTokens": "optional",
    "HttpPutResponseHopLimit": 1,
    "HttpEndpoint": "enabled",
    "HttpProtocolIpv6": "disabled",
    "InstanceMetadataTags": "disabled",
}


def show_state(state: InstanceState) -> dict[str, Any]:
    """A state with its code."""
    return {"Code": STATE_CODES[state], "Name": state.value}


def show_instance(account: Account, instance: Instance) -> dict[str, Any]:
    """One instance with what EC2 shows of it; what it no longer shows of an ended one is left out."""
    gone = instance.state is InstanceState.TERMINATED
    shown: dict[str, Any] = {
        "InstanceId": instance.instance_id,
        "ImageId": instance.launch["ImageId"],
        "State": show_state(instance.state),
        "StateTransitionReason": _transition(instance),
        "InstanceType": instance.instance_type,
        "LaunchTime": instance.launched_at,
        "Placement": {"AvailabilityZone": instance.zone, "GroupName": "", "Tenancy": "default"},
        "ClientToken": instance.launch.get("ClientToken", ""),
        "AmiLaunchIndex": 0,
        "Architecture": "x86_64",
        "RootDeviceName": "/dev/xvda",
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "InstanceLifecycle": "spot" if instance.purchase == "spot" else None,
        "SpotInstanceRequestId": instance.spot_request_id,
        "MetadataOptions": {**_METADATA, **(instance.launch.get("MetadataOptions") or {})},
        "Tags": shown_tags(instance.tags),
        "BlockDeviceMappings": [] if gone else _devices(account, instance),
        "SecurityGroups": [] if gone else [{"GroupId": group, "GroupName": group} for group in _groups(instance)],
    }
    if reason := instance.reason:
        shown["StateReason"] = {"Code": reason.code, "Message": f"{reason.code}: {reason.message}"}
    if profile := instance.launch.get("IamInstanceProfile"):
        shown["IamInstanceProfile"] = {"Arn": profile.get("Arn") or _profile_arn(account, profile.get("Name", ""))}
    if not gone:
        shown |= {
            "SubnetId": instance.subnet_id,
            "VpcId": network.vpc_id(instance.region),
            "PrivateIpAddress": instance.address,
            "PrivateDnsName": f"ip-{instance.address.replace('.', '-')}.{instance.region}.compute.internal",
            "PublicIpAddress": instance.public_address,
        }
    return shown


def _profile_arn(account: Account, name: str) -> str:
    return f"arn:aws:iam::{account.account_id}:instance-profile/{name}"


def _transition(instance: Instance) -> str:
    """``User initiated (2026-11-30 22:00:00 GMT)``; empty while it runs, and where EC2 names nobody."""
    reason: EndReason | None = instance.reason
    if reason is None or not reason.transition or instance.ending_at is None:
        return ""
    return f"{reason.transition} ({instance.ending_at:%Y-%m-%d %H:%M:%S} GMT)"


def _groups(instance: Instance) -> list[str]:
    interfaces = instance.launch.get("NetworkInterfaces") or [{}]
    named = instance.launch.get("SecurityGroupIds") or interfaces[0].get("Groups")
    return list(named or [network.group_id(instance.region)])


def _devices(account: Account, instance: Instance) -> list[dict[str, Any]]:
    volumes = account.kind("volume")
    shown = []
    for volume_id in instance.volume_ids:
        if volume_id in volumes and volumes[volume_id]["Attachments"]:
            (attachment,) = volumes[volume_id]["Attachments"]
            ebs = {
                "VolumeId": volume_id,
                "Status": attachment["State"],
                "AttachTime": attachment["AttachTime"],
                "DeleteOnTermination": attachment["DeleteOnTermination"],
            }
            shown.append({"DeviceName": attachment["Device"], "Ebs": ebs})
    return shown
