"""Missing permissions are found before anything is rented: each call that a lease needs is made as a dry run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from include.compute.ec2 import tags as tag
from include.compute.ec2.errors import Kind, code_of, verdict_of
from include.core.errors import LaunchRefusedError

# No instance has this id. A policy that allows ending by tag alone has to allow it for this id too, so that the dry run
# tells such a policy from one that does not allow ending at all.
PROBE_INSTANCE = "i-00000000000000000"


def check_permissions(
    reading: Any,  # noqa: ANN401 - boto3 has no types
    launching: Any,  # noqa: ANN401 - boto3 has no types
    *,
    fleet: Mapping[str, Any],
    installation: str,
) -> None:
    """Ask EC2 whether every call of a lease's life would be allowed.

    Args:
        reading: Client of EC2 for describing.
        launching: Client of EC2 for changing.
        fleet: Parameters of the CreateFleet call that is about to be made.
        installation: Digest of the installation.

    Raises:
        LaunchRefusedError: Some would not; all of them are named.
    """
    ours = tag.to_list({tag.INSTALLATION: installation})
    probes: dict[str, Callable[[], Any]] = {
        "ec2:DescribeInstances": lambda: reading.describe_instances(
            Filters=tag.filters(installation=installation), MaxResults=5
        ),
        "ec2:CreateFleet": lambda: launching.create_fleet(**fleet, DryRun=True),
        "ec2:RunInstances": lambda: launching.run_instances(**_as_instance(fleet), DryRun=True),
        "ec2:CreateTags": lambda: launching.create_tags(Resources=[PROBE_INSTANCE], Tags=ours, DryRun=True),
        "ec2:TerminateInstances": lambda: launching.terminate_instances(InstanceIds=[PROBE_INSTANCE], DryRun=True),
    }
    missing = {name: message for name, probe in probes.items() if (message := _refusal(probe))}
    if missing:
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
    specification = {key: config["LaunchTemplateSpecification"][key] for key in ("LaunchTemplateId", "Version")}
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
