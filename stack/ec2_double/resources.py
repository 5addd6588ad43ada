"""Volumes, snapshots and addresses: made, described, deleted. What a reaper has to find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, read_tags, select, shown_tags, tags_of
from stack.ec2_double.errors import AwsError

Thing = dict[str, Any]


def find_thing(account: Account, kind: str, wanted: str, *, region: str, code: str) -> Thing:
    """One thing of a kind.

    Raises:
        AwsError: There is none.
    """
    found = account.kind(kind).get(wanted)
    if found is None or found["Region"] != region:
        raise AwsError(code, f"The {kind} '{wanted}' does not exist.")
    return found


def _shown(thing: Mapping[str, Any]) -> Thing:
    return {key: value for key, value in thing.items() if key != "Region"}


def text_of(*path: str) -> Callable[[Thing], str | None]:
    """Reads a member as text, of lists their first item's, for filters."""

    def read(thing: Thing) -> str | None:
        value: Any = thing
        for key in path:
            value = value[0] if isinstance(value, list) and value else value
            value = value.get(key) if isinstance(value, dict) else None
        return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return read


def describe_things(
    account: Account,
    region: str,
    parameters: Mapping[str, Any],
    *,
    kind: str,
    ids: str,
    code: str,
    readers: Mapping[str, Callable[[Thing], str | None]],
) -> tuple[list[Thing], str | None]:
    """Things of a kind by id and filter, and the token of the next page."""
    wanted = parameters.get(ids)
    if wanted:
        found = [find_thing(account, kind, each, region=region, code=code) for each in wanted]
    else:
        found = [thing for thing in account.kind(kind).values() if thing["Region"] == region]
    chosen = select(found, parameters.get("Filters"), readers=readers, tags=lambda thing: read_tags(thing.get("Tags")))
    shown, token = page(chosen, parameters)
    return [_shown(thing) for thing in shown], token


def create_volume(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """CreateVolume."""
    volume_id = account.new_id("vol")
    volume = {
        "Region": region,
        "VolumeId": volume_id,
        "Size": int(parameters.get("Size", 8)),
        "VolumeType": parameters.get("VolumeType", "gp3"),
        "Encrypted": bool(parameters.get("Encrypted", False)),
        "AvailabilityZone": parameters["AvailabilityZone"],
        "CreateTime": account.clock.now(),
        "State": "available",
        "Attachments": [],
        "Tags": shown_tags(tags_of(parameters, "volume")),
    }
    account.kind("volume")[volume_id] = volume
    return _shown(volume)


def describe_volumes(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """DescribeVolumes."""
    shown, token = describe_things(
        account,
        region,
        parameters,
        kind="volume",
        ids="VolumeIds",
        code="InvalidVolume.NotFound",
        readers={
            "status": text_of("State"),
            "volume-id": text_of("VolumeId"),
            "availability-zone": text_of("AvailabilityZone"),
            "attachment.instance-id": text_of("Attachments", "InstanceId"),
            "encrypted": text_of("Encrypted"),
        },
    )
    return {"Volumes": shown, "NextToken": token}


def delete_volume(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """DeleteVolume: not of one that an instance has."""
    volume = find_thing(account, "volume", parameters["VolumeId"], region=region, code="InvalidVolume.NotFound")
    if volume["Attachments"]:
        raise AwsError("VolumeInUse", f"Volume {volume['VolumeId']} is currently attached")
    del account.kind("volume")[volume["VolumeId"]]
    return {}


def create_snapshot(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """CreateSnapshot."""
    volume = find_thing(account, "volume", parameters["VolumeId"], region=region, code="InvalidVolume.NotFound")
    snapshot_id = account.new_id("snap")
    snapshot = {
        "Region": region,
        "SnapshotId": snapshot_id,
        "VolumeId": volume["VolumeId"],
        "VolumeSize": volume["Size"],
        "State": "completed",
        "Progress": "100%",
        "StartTime": account.clock.now(),
        "OwnerId": account.account_id,
        "Description": parameters.get("Description", ""),
        "Encrypted": volume["Encrypted"],
        "Tags": shown_tags(tags_of(parameters, "snapshot")),
    }
    account.kind("snapshot")[snapshot_id] = snapshot
    return _shown(snapshot)


def describe_snapshots(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """DescribeSnapshots: those of this account; there are no others."""
    shown, token = describe_things(
        account,
        region,
        parameters,
        kind="snapshot",
        ids="SnapshotIds",
        code="InvalidSnapshot.NotFound",
        readers={
            "status": text_of("State"),
            "snapshot-id": text_of("SnapshotId"),
            "volume-id": text_of("VolumeId"),
            "owner-id": text_of("OwnerId"),
        },
    )
    return {"Snapshots": shown, "NextToken": token}


def delete_snapshot(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """DeleteSnapshot."""
    code = "InvalidSnapshot.NotFound"
    snapshot = find_thing(account, "snapshot", parameters["SnapshotId"], region=region, code=code)
    del account.kind("snapshot")[snapshot["SnapshotId"]]
    return {}


def allocate_address(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """AllocateAddress."""
    allocation_id = account.new_id("eipalloc")
    address = {
        "Region": region,
        "AllocationId": allocation_id,
        "PublicIp": f"198.51.100.{len(account.kind('address')) % 250 + 4}",
        "Domain": "vpc",
        "Tags": shown_tags(tags_of(parameters, "elastic-ip")),
    }
    account.kind("address")[allocation_id] = address
    return {key: address[key] for key in ("AllocationId", "PublicIp", "Domain")}


def describe_addresses(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """DescribeAddresses."""
    shown, _ = describe_things(
        account,
        region,
        parameters,
        kind="address",
        ids="AllocationIds",
        code="InvalidAllocationID.NotFound",
        readers={
            "allocation-id": text_of("AllocationId"),
            "public-ip": text_of("PublicIp"),
            "domain": text_of("Domain"),
        },
    )
    return {"Addresses": shown}


def release_address(account: Account, region: str, parameters: Mapping[str, Any]) -> Thing:
    """ReleaseAddress, by its allocation."""
    code = "InvalidAllocationID.NotFound"
    address = find_thing(account, "address", parameters["AllocationId"], region=region, code=code)
    del account.kind("address")[address["AllocationId"]]
    return {}
