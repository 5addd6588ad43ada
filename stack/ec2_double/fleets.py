"""CreateFleet of type ``instant``, and what describes and deletes fleets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stack.ec2_double import network
from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, read_tags, select, shown_tags, tags_of
from stack.ec2_double.errors import AwsError
from stack.ec2_double.fleet_allocation import Pool, Wish, allocate
from stack.ec2_double.launching import LaunchOrder, check_parameters
from stack.ec2_double.records import USER_ENDED
from stack.ec2_double.templates import with_template
from stack.ec2_double.transitions import begin_end

_OVERRIDE = ("InstanceType", "MaxPrice", "SubnetId", "AvailabilityZone", "Priority")
# What an override of an instant fleet may say of the instances themselves.
_LAUNCH = ("InstanceType", "ImageId", "IamInstanceProfile", "BlockDeviceMappings", "MetadataOptions", "KeyName")
_USER_DATA = "LaunchTemplateSpecificationUserData"
_UNSUPPORTED = ("WeightedCapacity", "InstanceRequirements")


def create_fleet(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """CreateFleet: what cannot be launched is told inside the answer, which is a success all the same."""
    if parameters.get("Type", "maintain") != "instant":
        raise AwsError("UnsupportedOperation", "the double has fleets of type instant only")
    fleet_id = account.new_id("fleet")
    wishes = _wishes(parameters)
    pools: list[Pool] = []
    for wish in wishes:
        own = list(_pools(account, region, parameters, purchase=wish.purchase, fleet_id=fleet_id))
        allocate(account, own, wish)
        pools += own
    answer = {
        "FleetId": fleet_id,
        "Errors": [_shown_error(pool) for pool in pools if pool.error],
        "Instances": [_shown_instances(pool) for pool in pools if pool.instances],
    }
    ids = [found.instance_id for pool in pools for found in pool.instances]
    account.fleets[fleet_id] = _book(account, region, parameters, answer, ids)
    return answer


def _wishes(parameters: Mapping[str, Any]) -> list[Wish]:
    target = parameters["TargetCapacitySpecification"]
    total = int(target["TotalTargetCapacity"])
    on_demand, spot = int(target.get("OnDemandTargetCapacity", 0)), int(target.get("SpotTargetCapacity", 0))
    rest = total - on_demand - spot
    if total < 1 or rest < 0:
        raise AwsError("InvalidTargetCapacitySpecification", "The target capacities do not add up.")
    if target.get("DefaultTargetCapacityType", "on-demand") == "spot":
        spot += rest
    else:
        on_demand += rest
    return [
        _wish("on-demand", on_demand, parameters.get("OnDemandOptions") or {}),
        _wish("spot", spot, parameters.get("SpotOptions") or {}),
    ]


def _wish(purchase: str, count: int, options: Mapping[str, Any]) -> Wish:
    wish = Wish(
        purchase=purchase,
        count=count,
        strategy=options.get("AllocationStrategy", "lowest-price"),
        least=int(options.get("MinTargetCapacity", 0)),
        one_type=bool(options.get("SingleInstanceType")),
        one_zone=bool(options.get("SingleAvailabilityZone")),
    )
    if wish.least and not (wish.one_type or wish.one_zone):
        raise AwsError(
            "InvalidParameterCombination",
            "MinTargetCapacity needs one of SingleAvailabilityZone and SingleInstanceType.",
        )
    return wish


def _pools(
    account: Account, region: str, parameters: Mapping[str, Any], *, purchase: str, fleet_id: str
) -> Iterator[Pool]:
    own_tags = [s for s in parameters.get("TagSpecifications") or () if s["ResourceType"] != "fleet"]
    for config in parameters["LaunchTemplateConfigs"]:
        reference = config["LaunchTemplateSpecification"]
        for override in config.get("Overrides") or [{}]:
            if any(key in override for key in _UNSUPPORTED):
                raise AwsError("UnsupportedOperation", f"the double has no {' or '.join(_UNSUPPORTED)} in overrides")
            fleet_tag = {"ResourceType": "instance", "Tags": shown_tags({"aws:ec2:fleet-id": fleet_id})}
            launch = with_template(
                account,
                {
                    "LaunchTemplate": reference,
                    "TagSpecifications": [*own_tags, fleet_tag],
                    **({"UserData": reference[_USER_DATA]} if _USER_DATA in reference else {}),
                    **{key: override[key] for key in _LAUNCH if key in override},
                },
                region=region,
            )
            check_parameters(launch)
            for zone in _zones(account, region, override, launch):
                order = LaunchOrder(
                    region=region,
                    zone=zone,
                    instance_type=launch.get("InstanceType", ""),
                    purchase=purchase,
                    launch=launch,
                    max_price=override.get("MaxPrice") if purchase == "spot" else None,
                    fleet_id=fleet_id,
                )
                shown = {key: override[key] for key in _OVERRIDE if key in override}
                yield Pool(
                    order=order,
                    override={**shown, "InstanceType": order.instance_type, "AvailabilityZone": zone},
                    reference={key: reference[key] for key in reference if key != _USER_DATA},
                    priority=override.get("Priority"),
                )


def _zones(account: Account, region: str, override: Mapping[str, Any], launch: Mapping[str, Any]) -> Sequence[str]:
    interfaces = launch.get("NetworkInterfaces") or [{}]
    if subnet := override.get("SubnetId") or interfaces[0].get("SubnetId"):
        return [network.zone_of_subnet(account, subnet, region=region)]
    zone = override.get("AvailabilityZone") or (launch.get("Placement") or {}).get("AvailabilityZone")
    if zone is None:
        return account.market.zones(region)
    if zone not in account.market.zones(region):
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{zone}]")
    return [zone]


def _shown_pool(pool: Pool) -> dict[str, Any]:
    return {
        "LaunchTemplateAndOverrides": {
            "LaunchTemplateSpecification": pool.reference,
            "Overrides": pool.override,
        },
        "Lifecycle": pool.order.purchase,
    }


def _shown_error(pool: Pool) -> dict[str, Any]:
    assert pool.error is not None
    return {**_shown_pool(pool), "ErrorCode": pool.error.code, "ErrorMessage": pool.error.message}


def _shown_instances(pool: Pool) -> dict[str, Any]:
    ids = [found.instance_id for found in pool.instances]
    return {**_shown_pool(pool), "InstanceIds": ids, "InstanceType": pool.order.instance_type}


def _book(
    account: Account, region: str, parameters: Mapping[str, Any], answer: Mapping[str, Any], ids: list[str]
) -> dict[str, Any]:
    return {
        "Region": region,
        "InstanceIds": ids,
        "FleetId": answer["FleetId"],
        "CreateTime": account.clock.now(),
        "FleetState": "active",
        "ActivityStatus": "fulfilled" if not answer["Errors"] else "error",
        "ClientToken": parameters.get("ClientToken", ""),
        "Type": "instant",
        "FulfilledCapacity": float(len(ids)),
        "TargetCapacitySpecification": parameters["TargetCapacitySpecification"],
        "Tags": shown_tags(tags_of(parameters, "fleet")),
        "Errors": answer["Errors"],
        "Instances": answer["Instances"],
    }


def describe_fleets(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeFleets. Instant fleets are shown only to those who name them, as on EC2."""
    found = [_fleet(account, wanted, region=region) for wanted in parameters.get("FleetIds") or ()]
    readers = {"fleet-state": lambda fleet: str(fleet["FleetState"]), "type": lambda fleet: str(fleet["Type"])}
    chosen = select(found, parameters.get("Filters"), readers=readers, tags=lambda fleet: read_tags(fleet["Tags"]))
    shown, token = page(chosen, parameters)
    return {
        "Fleets": [{k: v for k, v in fleet.items() if k not in {"Region", "InstanceIds"}} for fleet in shown],
        "NextToken": token,
    }


def _fleet(account: Account, fleet_id: str, *, region: str) -> dict[str, Any]:
    found = account.fleets.get(fleet_id)
    if found is None or found["Region"] != region:
        raise AwsError("InvalidFleetId.NotFound", f"The fleet ID '{fleet_id}' does not exist")
    return found


def delete_fleets(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteFleets: an instant fleet goes only together with its instances."""
    done, failed = [], []
    for fleet_id in parameters["FleetIds"]:
        fleet = account.fleets.get(fleet_id)
        if fleet is None or fleet["Region"] != region:
            error = {"Code": "fleetIdDoesNotExist", "Message": f"The fleet ID '{fleet_id}' does not exist"}
            failed.append({"FleetId": fleet_id, "Error": error})
            continue
        if not parameters.get("TerminateInstances"):
            error = {"Code": "unexpectedError", "Message": "Instant fleets are deleted with their instances only"}
            failed.append({"FleetId": fleet_id, "Error": error})
            continue
        before, fleet["FleetState"] = fleet["FleetState"], "deleted_terminating"
        for instance_id in fleet["InstanceIds"]:
            instance = account.instances[instance_id]
            begin_end(account, instance, reason=USER_ENDED, at=account.clock.now(), terminate=True)
        done.append({"FleetId": fleet_id, "PreviousFleetState": before, "CurrentFleetState": fleet["FleetState"]})
    return {"SuccessfulFleetDeletions": done, "UnsuccessfulFleetDeletions": failed}
