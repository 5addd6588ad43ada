"""How EC2 lists each kind of resource of this installation, and how an answer of it is read.

Instant fleets are left out: they launch once and never again, and their instances are listed. The launch template that
all leases share belongs to no lease and is left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from include.compute.ec2 import tags as tag
from include.compute.ec2.resource import Kind, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How one kind is listed.

    Attributes:
        kind: The kind.
        operation: Method of the client.
        read: Resources of one page of answers.
        arguments: Arguments besides the filter by tag.
        by_tag: Whether the call filters by tag; the caller filters too.
    """

    kind: Kind
    operation: str
    read: Callable[[Mapping[str, Any]], Iterable[Resource]]
    arguments: Mapping[str, Any]
    by_tag: bool = True

    def items(self, client: Any, installation: str) -> Iterator[Resource]:  # noqa: ANN401 - boto3 has no types
        """Resources of the kind, page by page."""
        arguments = dict(self.arguments)
        if self.by_tag:
            arguments["Filters"] = tag.filters(installation=installation) + arguments.get("Filters", [])
        if client.can_paginate(self.operation):
            pages = client.get_paginator(self.operation).paginate(**arguments)
        else:
            pages = [getattr(client, self.operation)(**arguments)]
        for page in pages:
            yield from self.read(page)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _instances(page: Mapping[str, Any]) -> Iterator[Resource]:
    for reservation in page["Reservations"]:
        for item in reservation["Instances"]:
            yield Resource(
                kind=Kind.INSTANCE,
                resource_id=item["InstanceId"],
                state=item["State"]["Name"],
                tags=tag.from_list(item.get("Tags")),
                created_at=_seconds(item.get("LaunchTime")),
            )


def _fleets(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["Fleets"]:
        if item.get("Type") != "instant" and item["FleetState"] not in ("deleted", "failed"):
            yield Resource(
                kind=Kind.FLEET,
                resource_id=item["FleetId"],
                state=item["FleetState"],
                tags=tag.from_list(item.get("Tags")),
                created_at=_seconds(item.get("CreateTime")),
            )


def _spot_requests(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["SpotInstanceRequests"]:
        if item["State"] in ("open", "active", "disabled"):
            yield Resource(
                kind=Kind.SPOT_REQUEST,
                resource_id=item["SpotInstanceRequestId"],
                state=item["State"],
                tags=tag.from_list(item.get("Tags")),
                created_at=_seconds(item.get("CreateTime")),
                attached_to=item.get("InstanceId") or "",
            )


def _volumes(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["Volumes"]:
        attached = [entry.get("InstanceId", "") for entry in item.get("Attachments", ())]
        yield Resource(
            kind=Kind.VOLUME,
            resource_id=item["VolumeId"],
            state=item["State"],
            tags=tag.from_list(item.get("Tags")),
            created_at=_seconds(item.get("CreateTime")),
            attached_to=next(filter(None, attached), ""),
        )


def _interfaces(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["NetworkInterfaces"]:
        yield Resource(
            kind=Kind.INTERFACE,
            resource_id=item["NetworkInterfaceId"],
            state=item["Status"],
            # This call alone names its tags otherwise.
            tags=tag.from_list(item.get("TagSet")),
            attached_to=(item.get("Attachment") or {}).get("InstanceId") or "",
        )


def _addresses(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["Addresses"]:
        yield Resource(
            kind=Kind.ADDRESS,
            resource_id=item["AllocationId"],
            state="",
            tags=tag.from_list(item.get("Tags")),
            attached_to=item.get("AssociationId") or "",
        )


def _snapshots(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["Snapshots"]:
        yield Resource(
            kind=Kind.SNAPSHOT,
            resource_id=item["SnapshotId"],
            state=item["State"],
            tags=tag.from_list(item.get("Tags")),
            created_at=_seconds(item.get("StartTime")),
        )


def _launch_templates(page: Mapping[str, Any]) -> Iterator[Resource]:
    for item in page["LaunchTemplates"]:
        tags = tag.from_list(item.get("Tags"))
        if tag.LEASE in tags:
            yield Resource(
                kind=Kind.LAUNCH_TEMPLATE,
                resource_id=item["LaunchTemplateId"],
                state="",
                tags=tags,
                created_at=_seconds(item.get("CreateTime")),
            )


_NOT_TERMINATED = {
    "Name": "instance-state-name",
    "Values": ["pending", "running", "shutting-down", "stopping", "stopped"],
}
LISTINGS = (
    Listing(kind=Kind.FLEET, operation="describe_fleets", read=_fleets, arguments={}, by_tag=False),
    Listing(kind=Kind.SPOT_REQUEST, operation="describe_spot_instance_requests", read=_spot_requests, arguments={}),
    Listing(
        kind=Kind.INSTANCE,
        operation="describe_instances",
        read=_instances,
        arguments={"Filters": [_NOT_TERMINATED]},
    ),
    Listing(kind=Kind.ADDRESS, operation="describe_addresses", read=_addresses, arguments={}),
    Listing(kind=Kind.INTERFACE, operation="describe_network_interfaces", read=_interfaces, arguments={}),
    Listing(kind=Kind.VOLUME, operation="describe_volumes", read=_volumes, arguments={}),
    Listing(kind=Kind.SNAPSHOT, operation="describe_snapshots", read=_snapshots, arguments={"OwnerIds": ["self"]}),
    Listing(kind=Kind.LAUNCH_TEMPLATE, operation="describe_launch_templates", read=_launch_templates, arguments={}),
)
