"""What comes with an instance: its spot request and its volumes."""

from __future__ import annotations

from stack.ec2_double.account import Account
from stack.ec2_double.answers import shown_tags, tags_of
from stack.ec2_double.records import Instance

_ROOT = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}


def book_spot_request(account: Account, instance: Instance) -> None:
    """The one-time request that a spot instance fulfils."""
    request_id = account.new_id("sir")
    instance.spot_request_id = request_id
    account.kind("spot-request")[request_id] = {
        "Region": instance.region,
        "SpotInstanceRequestId": request_id,
        "InstanceId": instance.instance_id,
        "CreateTime": instance.launched_at,
        "State": "active",
        "Status": {
            "Code": "fulfilled",
            "Message": "Your spot request is fulfilled.",
            "UpdateTime": instance.launched_at,
        },
        "Type": "one-time",
        "LaunchedAvailabilityZone": instance.zone,
        "InstanceInterruptionBehavior": "terminate",
        "ProductDescription": "Linux/UNIX",
        "Tags": shown_tags(tags_of(instance.launch, "spot-instances-request")),
    }


def book_volumes(account: Account, instance: Instance) -> None:
    """The volumes that an instance is launched with; one root volume where it names none."""
    mappings = instance.launch.get("BlockDeviceMappings") or [_ROOT]
    for mapping in mappings:
        ebs = mapping.get("Ebs")
        if ebs is None:
            continue
        volume_id = account.new_id("vol")
        instance.volume_ids.append(volume_id)
        account.kind("volume")[volume_id] = {
            "Region": instance.region,
            "VolumeId": volume_id,
            "Size": int(ebs.get("VolumeSize", 8)),
            "VolumeType": ebs.get("VolumeType", "gp3"),
            "Encrypted": bool(ebs.get("Encrypted", False)),
            "AvailabilityZone": instance.zone,
            "CreateTime": instance.launched_at,
            "State": "in-use",
            "Attachments": [
                {
                    "VolumeId": volume_id,
                    "InstanceId": instance.instance_id,
                    "Device": mapping.get("DeviceName", "/dev/xvda"),
                    "State": "attached",
                    "AttachTime": instance.launched_at,
                    "DeleteOnTermination": bool(ebs.get("DeleteOnTermination", True)),
                }
            ],
            "Tags": shown_tags(tags_of(instance.launch, "volume")),
        }
