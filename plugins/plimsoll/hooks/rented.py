"""What was rented for a lease, as its launch wrote it into the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from plimsoll.hooks.installation import Installation


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
        ids: Their ids, the one with the queue first.
        terms: Type, zone and purchase option, for people.
    """

    lease_id: str
    region: str
    ids: tuple[str, ...]
    terms: dict[str, str]

    @property
    def instances(self) -> Instances:
        """Region and ids alone."""
        return {"region": self.region, "ids": list(self.ids)}

    def to_xcom(self) -> dict[str, Any]:
        """For other tasks and for people."""
        return {"lease_id": self.lease_id, **self.instances, **self.terms}


def rented(installation: Installation, lease_id: str) -> Rented | None:
    """What a lease consists of; None where it is on this machine, or was not launched yet."""
    details = installation.ledger.launch_details(lease_id) or {}
    ids = tuple(filter(None, str(details.get("instance_ids") or "").split(",")))
    region = str(details.get("region") or "")
    if not ids or not region:
        return None
    terms = {name: str(details[name]) for name in ("instance_type", "zone", "purchase") if details.get(name)}
    return Rented(lease_id=lease_id, region=region, ids=ids, terms=terms)
