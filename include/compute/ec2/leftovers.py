"""Everything of this installation on EC2 that can cost money, by tag: what is there, and how a piece of it is ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from include.compute.ec2 import tags as tag
from include.compute.ec2.resource import Kind, Resource
from include.compute.ec2.resource_listings import LISTINGS
from include.core.errors import PlimsollError

_log = logging.getLogger("plimsoll.compute")

# What these answers name is gone: what was to be ended has ended.
_GONE = ("NotFound", "NotFoundException", "DoesNotExist")


class UnlistedError(PlimsollError):
    """A kind of resource could not be listed, so nobody knows what is there.

    Args:
        problems: EC2's answer by kind that could not be listed.
        found: What was listed all the same.
    """

    def __init__(self, problems: Mapping[Kind, str], found: tuple[Resource, ...]) -> None:
        self.problems = {kind: f"no {kind} can be listed: {answer}" for kind, answer in problems.items()}
        self.found = found
        super().__init__("; ".join(self.problems.values()))


def take_inventory(client: Any, *, installation: str) -> tuple[Resource, ...]:  # noqa: ANN401 - boto3 has no types
    """List what this installation has on EC2: all kinds, all states but gone.

    Args:
        client: Client of EC2 in the region that the installation rents in.
        installation: Digest of the installation, see `include.compute.ec2.tags.installation_of`.

    Raises:
        UnlistedError: EC2 does not answer for one or more kinds.
    """
    found: list[Resource] = []
    problems = {}
    for listing in LISTINGS:
        try:
            items = listing.items(client, installation)
            # Not every call filters by tag; what is not of this installation is never seen by anybody above.
            found += [item for item in items if item.tags.get(tag.INSTALLATION) == installation]
        except Exception as error:  # noqa: BLE001 - whatever the reason: the other kinds are listed, and this is told
            problems[listing.kind] = str(error)
    if problems:
        raise UnlistedError(problems, tuple(found))
    return tuple(found)


def remove(client: Any, resource: Resource) -> None:  # noqa: ANN401 - boto3 has no types
    """End one resource; idempotent. An instance is then shutting down, not yet gone.

    Raises:
        botocore.exceptions.ClientError: EC2 refuses.
        RuntimeError: EC2 refuses inside an answer that looks like success.
    """
    try:
        _REMOVALS[resource.kind](client, resource)
    except Exception as error:
        code = str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
        if not code.endswith(_GONE):
            raise
        _log.info("%s was gone already", resource)


def _delete_fleet(client: Any, resource: Resource) -> None:  # noqa: ANN401 - boto3 has no types
    answer = client.delete_fleets(FleetIds=[resource.resource_id], TerminateInstances=True)
    for refused in answer.get("UnsuccessfulFleetDeletions", ()):
        raise RuntimeError(f"{refused['Error']['Code']}: {refused['Error']['Message']}")


def _release_address(client: Any, resource: Resource) -> None:  # noqa: ANN401 - boto3 has no types
    if resource.attached_to:
        client.disassociate_address(AssociationId=resource.attached_to)
    client.release_address(AllocationId=resource.resource_id)


_REMOVALS: Mapping[Kind, Callable[[Any, Resource], Any]] = {
    Kind.FLEET: _delete_fleet,
    Kind.SPOT_REQUEST: lambda client, it: client.cancel_spot_instance_requests(SpotInstanceRequestIds=[it.resource_id]),
    Kind.INSTANCE: lambda client, it: client.terminate_instances(InstanceIds=[it.resource_id]),
    Kind.ADDRESS: _release_address,
    Kind.INTERFACE: lambda client, it: client.delete_network_interface(NetworkInterfaceId=it.resource_id),
    Kind.VOLUME: lambda client, it: client.delete_volume(VolumeId=it.resource_id),
    Kind.SNAPSHOT: lambda client, it: client.delete_snapshot(SnapshotId=it.resource_id),
    Kind.LAUNCH_TEMPLATE: lambda client, it: client.delete_launch_template(LaunchTemplateId=it.resource_id),
}
