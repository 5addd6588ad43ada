"""Tags of everything rented on EC2: written in the launch call itself, and what lookups filter by.

A second installation in the same account has another ``plimsoll:installation``, so neither ever touches what the other
rents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from include.core.contracts.lease import LaunchRequest
from include.core.ids import digest

LEASE = "plimsoll:lease"
GROUP = "plimsoll:group"
GENERATION = "plimsoll:generation"
DAG = "plimsoll:dag"
RUN = "plimsoll:run"
OWNER = "plimsoll:owner"
COST_CENTRE = "plimsoll:cost-centre"
EXPIRES_AT = "plimsoll:expires-at"
INSTALLATION = "plimsoll:installation"
LAUNCH = "plimsoll:launch"

# EC2's limit for the value of a tag.
_LONGEST_VALUE = 256


def installation_of(store_url: str) -> str:
    """Short digest that stands for an installation: whoever shares the store shares the leases."""
    return digest(store_url.rstrip("/"), length=12)


def lease_tags(request: LaunchRequest, *, installation: str, expires_at: float, launch: int) -> dict[str, str]:
    """Tags of what one launch call rents.

    Args:
        request: The lease.
        installation: Digest of the installation, see `installation_of`.
        expires_at: POSIX seconds at which the lease ends, as known at its launch; its agent may extend that.
        launch: Number of the launch call within the lease.
    """
    tags = {
        "Name": request.lease_id,
        INSTALLATION: installation,
        LEASE: request.lease_id,
        GROUP: request.group_id,
        GENERATION: request.lease_id.rpartition("-g")[2],
        LAUNCH: str(launch),
        EXPIRES_AT: str(int(expires_at)),
        DAG: request.dag_id,
        RUN: request.run_id,
        OWNER: request.owner,
        COST_CENTRE: request.cost_centre,
    }
    return {key: value[:_LONGEST_VALUE] for key, value in tags.items() if value}


def to_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as EC2's calls take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def from_list(tags: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """Tags of an answer of EC2, which leaves the list out where there are none."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags or ()}


def filters(
    *, installation: str, group_id: str | None = None, lease_id: str | None = None
) -> list[dict[str, str | list[str]]]:
    """Filters of a describe call: this installation's, and only those of a group or lease where one is given."""
    wanted = {INSTALLATION: installation, GROUP: group_id, LEASE: lease_id}
    return [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items() if value is not None]
