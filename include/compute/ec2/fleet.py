"""Launching calls: ranked candidates become rounds of one purchase option each, a round becomes a CreateFleet call.

Fleets are of type ``instant``: they answer at once, launch once and never again. Several instances are of one type in
one zone, all or none.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from include.compute.ec2 import tags as tag
from include.compute.ec2.families import ON_DEMAND, SPOT
from include.compute.ec2.launch_template import Template, instance_profile, root_volume
from include.config.settings import Settings
from include.core.contracts.lease import LaunchCandidate, LaunchRequest

# EC2 takes up to 300 pairs of type and subnet in one instant fleet; ranks beyond the best hundred gain nothing.
_MOST_OVERRIDES = 100
_GIB = 2**30
# What the operating system, the image and the agent take of the root volume.
_SYSTEM_GIB = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One type in one place.

    Attributes:
        candidate: The offer.
        subnet: Subnet, empty for the default network.
        zone: Zone by name, empty for any.
    """

    candidate: LaunchCandidate
    subnet: str
    zone: str


def market_of(candidate: LaunchCandidate) -> str:
    """How a candidate is launched: reserved capacity is on-demand capacity that is paid for otherwise."""
    return SPOT if candidate.purchase == SPOT else ON_DEMAND


def rounds_of(candidates: Iterable[LaunchCandidate]) -> tuple[tuple[LaunchCandidate, ...], ...]:
    """Neighbours in rank of one market make a round."""
    return tuple(tuple(group) for _, group in itertools.groupby(candidates, key=market_of))


def pools_of(
    candidates: Sequence[LaunchCandidate], zones_of_subnets: Mapping[str, str]
) -> tuple[tuple[Pool, ...], tuple[LaunchCandidate, ...]]:
    """Where each candidate can be launched, by rank.

    Args:
        candidates: Candidates of one round.
        zones_of_subnets: Zone of each subnet that workers may run in; empty takes the default network.

    Returns:
        Pools, and candidates whose zone has no subnet.
    """
    pools: dict[tuple[str, str, str], Pool] = {}
    placeless = []
    for candidate in candidates:
        if zones_of_subnets:
            places = [(s, zone) for s, zone in zones_of_subnets.items() if candidate.zone in {None, zone}]
        else:
            places = [("", candidate.zone or "")]
        if not places:
            placeless.append(candidate)
        for subnet, zone in places:
            pools.setdefault(
                (candidate.instance_type, subnet, zone), Pool(candidate=candidate, subnet=subnet, zone=zone)
            )
    return tuple(pools.values())[:_MOST_OVERRIDES], tuple(placeless)


def fleet_parameters(
    *,
    request: LaunchRequest,
    pools: Sequence[Pool],
    template: Template,
    tags: Mapping[str, str],
    user_data: str,
    settings: Settings,
    root_device: str | None,
) -> dict[str, Any]:
    """Parameters of the CreateFleet call of one round, without its token.

    Args:
        request: The lease.
        pools: Where, best first; all of one market.
        template: Launch template.
        tags: Tags of all that is made.
        user_data: Boot script.
        settings: Settings of the installation.
        root_device: Root device of the machine image, where the lease needs a larger volume than the template's.
    """
    market = market_of(pools[0].candidate)
    count = request.instances
    # With one instance the flags say nothing, but EC2 wants one of them with a minimum.
    whole = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": count}
    capacity: dict[str, Any] = {"TotalTargetCapacity": count, "DefaultTargetCapacityType": market}
    options: dict[str, Any]
    if market == SPOT:
        # No maximum price: it brings interruptions and saves nothing, the price of spot never exceeds on-demand.
        spot = {"AllocationStrategy": "capacity-optimized-prioritized", "InstanceInterruptionBehavior": "terminate"}
        options = {"SpotOptions": {**spot, **whole}}
        capacity |= {"SpotTargetCapacity": count, "OnDemandTargetCapacity": 0}
    else:
        options = {"OnDemandOptions": {"AllocationStrategy": "prioritized", **whole}}
        capacity |= {"OnDemandTargetCapacity": count, "SpotTargetCapacity": 0}
    common = _common_override(request, settings, root_device)
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateId": template.template_id,
                    "Version": template.version,
                    "LaunchTemplateSpecificationUserData": base64.b64encode(user_data.encode()).decode(),
                },
                "Overrides": [_override(pool, rank, common) for rank, pool in enumerate(pools)],
            }
        ],
        "TargetCapacitySpecification": capacity,
        **options,
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tag.to_list(tags)} for kind in ("fleet", "instance", "volume")
        ],
    }


def _override(pool: Pool, rank: int, common: Mapping[str, Any]) -> dict[str, Any]:
    where = {"SubnetId": pool.subnet} if pool.subnet else {"AvailabilityZone": pool.zone} if pool.zone else {}
    return {"InstanceType": pool.candidate.instance_type, "Priority": float(rank), **where, **common}


def _common_override(request: LaunchRequest, settings: Settings, root_device: str | None) -> dict[str, Any]:
    common: dict[str, Any] = {}
    if settings.ec2_ami:
        common["ImageId"] = settings.ec2_ami
    if settings.ec2_instance_profile:
        common["IamInstanceProfile"] = instance_profile(settings.ec2_instance_profile)
    if root_device is not None:
        common["BlockDeviceMappings"] = [root_volume(device=root_device, size_gib=volume_gib(request, settings))]
    return common


def volume_gib(request: LaunchRequest, settings: Settings) -> int:
    """Root volume that a lease needs: the installation's, or more where its jobs need more scratch space."""
    if request.storage_bytes is None:
        return settings.ec2_volume_gib
    return max(settings.ec2_volume_gib, -(-request.storage_bytes // _GIB) + _SYSTEM_GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetError:
    """One error inside a successful answer.

    Attributes:
        code: EC2's code.
        message: EC2's words.
        instance_type: Type it is about, empty where EC2 does not say.
    """

    code: str
    message: str
    instance_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer:
    """What a CreateFleet call brought.

    Attributes:
        fleet_id: EC2's id.
        instances: Ids of all instances.
        errors: Errors of pools.
    """

    fleet_id: str
    instances: tuple[str, ...]
    errors: tuple[FleetError, ...]


def read_answer(answer: Mapping[str, Any]) -> FleetAnswer:
    """The answer of a CreateFleet call of type instant."""
    instances = [item for group in answer.get("Instances") or () for item in group.get("InstanceIds") or ()]
    errors = [
        FleetError(
            code=str(item.get("ErrorCode") or ""),
            message=str(item.get("ErrorMessage") or ""),
            instance_type=((item.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}).get(
                "InstanceType", ""
            ),
        )
        for item in answer.get("Errors") or ()
    ]
    return FleetAnswer(fleet_id=answer.get("FleetId", ""), instances=tuple(instances), errors=tuple(errors))
