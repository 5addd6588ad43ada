"""What this installation can have on EC2, and what is known of each piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from include.compute.damage import moment
from include.compute.ec2 import tags as tag


class Kind(StrEnum):
    """Kinds of resources, in the order in which they are ended: first what could make new ones."""

    FLEET = "fleet"
    SPOT_REQUEST = "spot request"
    INSTANCE = "instance"
    ADDRESS = "address"
    INTERFACE = "network interface"
    VOLUME = "volume"
    SNAPSHOT = "snapshot"
    LAUNCH_TEMPLATE = "launch template"


# It ends by itself; EC2 bills an instance until it begins to shut down.
ENDING = frozenset({"shutting-down", "deleting", "deleted_terminating"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing on EC2 that carries the tags of this installation.

    Attributes:
        kind: What it is.
        resource_id: EC2's id of it.
        state: EC2's word for its state, empty for kinds without one.
        tags: Its tags.
        created_at: POSIX seconds at which it was made, None for kinds that do not tell.
        attached_to: Instance or association it hangs on, empty where it hangs on nothing.
    """

    kind: Kind
    resource_id: str
    state: str
    tags: Mapping[str, str]
    created_at: float | None = None
    attached_to: str = ""

    @property
    def lease_id(self) -> str:
        """The lease it was rented for, empty where its tags name none."""
        return self.tags.get(tag.LEASE, "")

    @property
    def expires_at(self) -> float | None:
        """POSIX seconds after which it has no right to be there, as known at its launch."""
        return moment(self.tags.get(tag.EXPIRES_AT))

    @property
    def lives(self) -> bool:
        """Whether it is an instance that may run or run again."""
        return self.kind is Kind.INSTANCE and self.state not in ENDING

    def __str__(self) -> str:
        state = f" ({self.state})" if self.state else ""
        return f"{self.kind} {self.resource_id}{state}"
