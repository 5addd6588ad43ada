"""What was rented for a lease, as its launch wrote it into the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from plimsoll.hooks.installation import Installation

_EC2 = "ec2"
_TERMS = ("instance_type", "zone", "purchase")


class Instances(TypedDict):
    """Instances of a lease in a form that XCom and the rows of triggers take."""

    region: str
    ids: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """Instances of one lease in a cloud.

    Attributes:
        lease_id: The lease.
        region: Region they are in.
        ids: Their ids, the first node's first; empty while nobody knows them.
        terms: Type, zone and purchase option, for people.
    """

    lease_id: str
    region: str
    ids: tuple[str, ...]
    terms: dict[str, str]

    @property
    def instances(self) -> Instances | None:
        """What EC2 can be asked for, None while the ids are not known."""
        return {"region": self.region, "ids": list(self.ids)} if self.ids else None

    def to_xcom(self) -> dict[str, Any]:
        """For other tasks and for people."""
        return {"lease_id": self.lease_id, "region": self.region, "ids": list(self.ids), **self.terms}


def rented(installation: Installation, lease_id: str) -> Rented | None:
    """What a lease consists of; None where it is on this machine, or was not launched yet."""
    details: dict[str, Any] = installation.ledger.launch_details(lease_id) or {}
    if details.get("engine") != _EC2:
        return None
    if not details.get("instance_ids"):
        # EC2 shows an instance some time after it was launched; the launch was written down before.
        details |= installation.engine.describe(lease_id).details
    return Rented(
        lease_id=lease_id,
        region=str(details.get("region") or ""),
        ids=tuple(filter(None, str(details.get("instance_ids") or "").split(","))),
        terms={name: str(details[name]) for name in _TERMS if details.get(name)},
    )
