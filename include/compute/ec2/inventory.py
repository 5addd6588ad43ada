"""The instances of an installation as EC2 describes them: states, and the time that is billed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from include.compute.ec2 import tags as tag

# EC2 ends the billing of an instance when it begins to shut down.
_ENDED = frozenset({"shutting-down", "terminated"})
_WORKING = frozenset({"pending", "running"})
# For example "User initiated (2026-11-30 10:15:00 GMT)".
_WHEN = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? (?:GMT|UTC)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance.

    Attributes:
        instance_id: EC2's id.
        state: EC2's word.
        instance_type: Type.
        zone: Availability zone, empty where EC2 does not say.
        spot: Whether it is a spot instance.
        launched_at: When it was launched, None where EC2 does not say.
        ended_at: When it began to shut down, None while it runs or where EC2 does not say.
        reason: Why it ended, as EC2 words it.
        tags: Its tags.
    """

    instance_id: str
    state: str
    instance_type: str
    zone: str
    spot: bool
    launched_at: datetime | None
    ended_at: datetime | None
    reason: str
    tags: Mapping[str, str]

    @property
    def lease_id(self) -> str:
        """The lease it was rented for, empty where its tags name none."""
        return self.tags.get(tag.LEASE, "")

    @property
    def launch(self) -> int | None:
        """Number of the launch call that made it, None where its tags name none."""
        number = self.tags.get(tag.LAUNCH, "")
        return int(number) if number.isdecimal() else None

    @property
    def works(self) -> bool:
        """Whether it runs or is about to."""
        return self.state in _WORKING

    @property
    def ends(self) -> bool:
        """Whether it is over and cannot come back; a stopped instance can."""
        return self.state in _ENDED


def describe(
    client: Any,  # noqa: ANN401 - boto3 has no types
    *,
    installation: str,
    group_id: str | None = None,
    lease_id: str | None = None,
) -> tuple[Instance, ...]:
    """Instances of this installation in all states that EC2 still shows, by tag.

    Raises:
        botocore.exceptions.ClientError: EC2 refuses or fails; nothing is known then.
    """
    return _listed(client, tag.filters(installation=installation, group_id=group_id, lease_id=lease_id))


def describe_ids(client: Any, ids: Iterable[str]) -> tuple[Instance, ...]:  # noqa: ANN401 - boto3 has no types
    """Instances by id; ids that EC2 does not show, not yet or no longer, are left out."""
    wanted = sorted(set(ids))
    return _listed(client, [{"Name": "instance-id", "Values": wanted}]) if wanted else ()


def _listed(client: Any, filters: list[dict[str, Any]]) -> tuple[Instance, ...]:  # noqa: ANN401 - boto3 has no types
    pages = client.get_paginator("describe_instances").paginate(Filters=filters)
    return tuple(
        _instance(item) for page in pages for reservation in page["Reservations"] for item in reservation["Instances"]
    )


def _instance(item: Mapping[str, Any]) -> Instance:
    transition = str(item.get("StateTransitionReason") or "")
    reason = item.get("StateReason") or {}
    state = item["State"]["Name"]
    launched: datetime | None = item.get("LaunchTime")
    return Instance(
        instance_id=item["InstanceId"],
        state=state,
        instance_type=item.get("InstanceType", ""),
        zone=(item.get("Placement") or {}).get("AvailabilityZone", ""),
        spot=item.get("InstanceLifecycle") == "spot",
        launched_at=None if launched is None else launched.astimezone(UTC),
        ended_at=None if state in _WORKING else ended_at(transition),
        reason=str(reason.get("Code") or transition),
        tags=tag.from_list(item.get("Tags")),
    )


def ended_at(transition: str) -> datetime | None:
    """Moment in EC2's reason for the latest change of state, None where it names none."""
    found = _WHEN.search(transition)
    return None if found is None else datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
