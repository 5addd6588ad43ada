"""Missing permissions are found before anything is rented: each call that a lease needs is made as a dry run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from include.compute.ec2 import tags as tag
from include.compute.ec2.errors import Kind, code_of, verdict_of
from include.core.errors import LaunchRefusedError

# No instance has this id. A policy that allows ending by tag alone has to allow it for this id too, so that the dry run
# tells such a policy from one that does not allow ending at all.
PROBE_INSTANCE = "i-00000000000000000"


# What every launch, every look at a lease and every pass of the reaper asks, whatever the settings are.
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "DescribeInstances": {},
    "DescribeLaunchTemplates": {},
    "DescribeLaunchTemplateVersions": {"Versions": ["$Default"]},
    "DescribeFleets": {},
    "DescribeSpotInstanceRequests": {},
    "DescribeAddresses": {},
    "DescribeNetworkInterfaces": {},
    "DescribeVolumes": {},
    "DescribeSnapshots": {"OwnerIds": ["self"]},
}
Probes = Mapping[str, Callable[[], Any]]


def check_looks(
    reading: Any,  # noqa: ANN401 - boto3 has no types
    launching: Any,  # noqa: ANN401 - boto3 has no types
    *,
    template: str,
    instance_type: str,
    installation: str,
) -> None:
    """Ask EC2 whether looking would be allowed, before any of it is needed.

    Where something is missing, launching, tagging and ending are asked about too, with a launch as plain as can be: the
    real one can only be planned by looking.

    Args:
        reading: Client of EC2 for describing.
        launching: Client of EC2 for changing.
        template: Name of the launch template.
        instance_type: A type that may be launched.
        installation: Digest of the installation.

    Raises:
        LaunchRefusedError: Some would not; all of them are named.
    """
    probes: Probes = {
        f"ec2:{name}": partial(getattr(reading, _method(name)), **arguments, DryRun=True)
        for name, arguments in _LOOKS.items()
    }
    if missing := _missing(probes):
        plain = _plain_fleet(template=template, instance_type=instance_type, installation=installation)
        _refuse(missing | _missing(_changes(launching, plain, installation)))


def check_changes(launching: Any, *, fleet: Mapping[str, Any], installation: str) -> None:  # noqa: ANN401 - no types
    """Ask EC2 whether the launch that is about to be made, its tags and its end would be allowed.

    Args:
        launching: Client of EC2 for changing.
        fleet: Parameters of the CreateFleet call.
        installation: Digest of the installation.

    Raises:
        LaunchRefusedError: Some would not; all of them are named.
    """
    if missing := _missing(_changes(launching, fleet, installation)):
        _refuse(missing)


def _method(action: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower()


def _changes(launching: Any, fleet: Mapping[str, Any], installation: str) -> Probes:  # noqa: ANN401 - no types
    ours = tag.to_list({tag.INSTALLATION: installation})
    return {
        "ec2:CreateFleet": lambda: launching.create_fleet(**fleet, DryRun=True),
        "ec2:RunInstances": lambda: launching.run_instances(**_as_instance(fleet), DryRun=True),
        "ec2:CreateTags": lambda: launching.create_tags(Resources=[PROBE_INSTANCE], Tags=ours, DryRun=True),
        "ec2:TerminateInstances": lambda: launching.terminate_instances(InstanceIds=[PROBE_INSTANCE], DryRun=True),
    }


def _plain_fleet(*, template: str, instance_type: str, installation: str) -> dict[str, Any]:
    # Policies ask for these tags of whatever is launched, see docs/how-to/rent-on-ec2.md.
    tags = tag.to_list({tag.INSTALLATION: installation, tag.EXPIRES_AT: "0"})
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Default"},
                "Overrides": [{"InstanceType": instance_type}],
            }
        ],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("fleet", "instance", "volume")],
    }


def _missing(probes: Probes) -> dict[str, str]:
    return {name: code for name, probe in probes.items() if (code := _refusal(probe))}


def _refuse(missing: Mapping[str, str]) -> NoReturn:
    raise LaunchRefusedError(
        "the credentials lack permissions; nothing was launched",
        found=", ".join(missing),
        todo=f"allow them, see docs/how-to/rent-on-ec2.md (EC2: {next(iter(missing.values()))})",
    )


def _refusal(probe: Callable[[], Any]) -> str:
    """EC2's code if the call would not be allowed; any other answer says that permission is not what is missing."""
    try:
        probe()
    except Exception as error:  # noqa: BLE001 - a dry run always ends in an error; `code_of` raises what is none
        verdict = verdict_of(code_of(error))
        return verdict.code if verdict.kind is Kind.AUTH else ""
    return ""


def _as_instance(fleet: Mapping[str, Any]) -> dict[str, Any]:
    """The first pool of a fleet as a RunInstances call: CreateFleet makes that call for its caller."""
    config = fleet["LaunchTemplateConfigs"][0]
    override = config["Overrides"][0]
    given = config["LaunchTemplateSpecification"]
    # The user data of a fleet stands here too, under a name that RunInstances does not know.
    specification = {key: given[key] for key in ("LaunchTemplateId", "LaunchTemplateName", "Version") if key in given}
    tags = [item for item in fleet["TagSpecifications"] if item["ResourceType"] != "fleet"]
    parameters = {
        "LaunchTemplate": specification,
        "InstanceType": override["InstanceType"],
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": tags,
    }
    parameters |= {key: override[key] for key in ("ImageId", "IamInstanceProfile") if key in override}
    if "AvailabilityZone" in override:
        parameters["Placement"] = {"AvailabilityZone": override["AvailabilityZone"]}
    if "SubnetId" in override:
        # Besides interfaces of the template EC2 takes no subnet of the instance itself.
        parameters["NetworkInterfaces"] = [{"DeviceIndex": 0, "SubnetId": override["SubnetId"]}]
    if "SpotOptions" in fleet:
        parameters["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
    return parameters
