"""The launch template of workers: found by name, made when there is none, refused when it would leave money behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from include.compute.ec2 import tags as tag
from include.compute.ec2.errors import code_of
from include.config.settings import Settings
from include.core.errors import LaunchRefusedError

_ABSENT = frozenset({"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"})
_TAKEN = "InvalidLaunchTemplateName.AlreadyExistsException"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A launch template at one version.

    Attributes:
        template_id: EC2's id.
        version: Number of the version.
        image_id: Machine image of the template, empty where it has none.
    """

    template_id: str
    version: str
    image_id: str


def ensure_template(
    reading: Any,  # noqa: ANN401 - boto3 has no types
    launching: Any,  # noqa: ANN401 - boto3 has no types
    settings: Settings,
    *,
    installation: str,
) -> Template:
    """The template of the settings, made now if there is none.

    Args:
        reading: Client of EC2 for describing.
        launching: Client of EC2 for changing.
        settings: Settings of the installation.
        installation: Digest of the installation.

    Raises:
        LaunchRefusedError: The template cannot be used, or cannot be made for want of a machine image.
        botocore.exceptions.ClientError: EC2 refuses or fails.
    """
    found = _find(reading, settings.ec2_launch_template)
    if found is None:
        _create(reading, launching, settings, installation=installation)
        found = _find(reading, settings.ec2_launch_template)
        if found is None:
            raise LaunchRefusedError(
                "the launch template was made but is not there", where=settings.ec2_launch_template, todo="try again"
            )
    template_id, version = found
    data = _data(reading, template_id, version)
    _check(data, settings)
    return Template(template_id=template_id, version=version, image_id=data.get("ImageId", ""))


def _find(reading: Any, name: str) -> tuple[str, str] | None:  # noqa: ANN401 - boto3 has no types
    try:
        answer = reading.describe_launch_templates(LaunchTemplateNames=[name])
    except Exception as error:
        if code_of(error) in _ABSENT:
            return None
        raise
    found = answer["LaunchTemplates"]
    return (found[0]["LaunchTemplateId"], str(found[0]["DefaultVersionNumber"])) if found else None


def _data(reading: Any, template_id: str, version: str) -> Mapping[str, Any]:  # noqa: ANN401 - boto3 has no types
    answer = reading.describe_launch_template_versions(LaunchTemplateId=template_id, Versions=[version])
    data: Mapping[str, Any] = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def _check(data: Mapping[str, Any], settings: Settings) -> None:
    """A template made elsewhere has to hold what keeps an instance from outliving its work."""
    wrong = [*_lasting(data)]
    if (data.get("MetadataOptions") or {}).get("HttpTokens") != "required":
        wrong.append("MetadataOptions.HttpTokens is not 'required'")
    wrong += [*_left_behind(data), *_another_price(data)]
    if not (data.get("ImageId") or settings.ec2_ami):
        wrong.append("it has no ImageId, and PLIMSOLL_EC2_AMI is not set")
    if wrong:
        raise LaunchRefusedError(
            "the launch template cannot be used",
            where=settings.ec2_launch_template,
            found="; ".join(wrong),
            todo="mend it, or name another one in PLIMSOLL_EC2_LAUNCH_TEMPLATE; one that is absent is made",
        )


def _lasting(data: Mapping[str, Any]) -> Iterator[str]:
    """What keeps an instance, or its memory, when it is to end."""
    if data.get("InstanceInitiatedShutdownBehavior") != "terminate":
        yield "InstanceInitiatedShutdownBehavior is not 'terminate': a shut down worker would stay"
    for name in ("DisableApiTermination", "DisableApiStop"):
        if data.get(name):
            yield f"{name} is set"
    if (data.get("HibernationOptions") or {}).get("Configured"):
        yield "HibernationOptions is set: a worker ends, it does not sleep"


def _left_behind(data: Mapping[str, Any]) -> Iterator[str]:
    """Volumes and interfaces that stay, and cost, after their instance.

    A volume has to say that it goes: where a template does not, that depends on the image and on who launches. An
    interface that is made with its instance goes unless the template says otherwise.
    """
    for mapping in data.get("BlockDeviceMappings") or ():
        volume = mapping.get("Ebs")
        if volume is not None and volume.get("DeleteOnTermination") is not True:
            yield f"the volume {mapping.get('DeviceName', '')} has no DeleteOnTermination=true: it would stay"
    for interface in data.get("NetworkInterfaces") or ():
        if interface.get("DeleteOnTermination") is False:
            yield f"the network interface {interface.get('DeviceIndex', 0)} stays: DeleteOnTermination=false"


def _another_price(data: Mapping[str, Any]) -> Iterator[str]:
    """What makes an instance another one than was planned, at another price."""
    if data.get("InstanceMarketOptions"):
        yield "InstanceMarketOptions is set: a fleet chooses between spot and on-demand itself"
    if data.get("InstanceRequirements"):
        yield "InstanceRequirements is set: a plan chooses the types itself"
    placement = data.get("Placement") or {}
    tenancy = placement.get("Tenancy") or "default"
    if tenancy != "default":
        yield f"Placement.Tenancy is '{tenancy}': no price that is known here holds for it"
    for name in ("HostId", "HostResourceGroupArn"):
        if placement.get(name):
            yield f"Placement.{name} is set: no price that is known here holds for a host of one's own"


def _create(
    reading: Any,  # noqa: ANN401 - boto3 has no types
    launching: Any,  # noqa: ANN401 - boto3 has no types
    settings: Settings,
    *,
    installation: str,
) -> None:
    if not settings.ec2_ami:
        raise LaunchRefusedError(
            "the launch template does not exist and cannot be made without a machine image",
            where=settings.ec2_launch_template,
            todo="set PLIMSOLL_EC2_AMI",
        )
    data = template_data(settings, root_device=root_device(reading, settings.ec2_ami), installation=installation)
    try:
        launching.create_launch_template(
            LaunchTemplateName=settings.ec2_launch_template,
            VersionDescription="Worker of Plimsoll",
            LaunchTemplateData=data,
            TagSpecifications=[
                {"ResourceType": "launch-template", "Tags": tag.to_list({tag.INSTALLATION: installation})}
            ],
        )
    except Exception as error:
        if code_of(error) != _TAKEN:  # another process was first
            raise


def root_device(reading: Any, image_id: str) -> str:  # noqa: ANN401 - boto3 has no types
    """Name of an image's root device.

    Raises:
        LaunchRefusedError: There is no such image here.
        botocore.exceptions.ClientError: EC2 refuses or fails.
    """
    images = reading.describe_images(ImageIds=[image_id])["Images"]
    if not images:
        raise LaunchRefusedError("the machine image does not exist", found=image_id, where="PLIMSOLL_EC2_AMI")
    return str(images[0].get("RootDeviceName") or "/dev/xvda")


def root_volume(*, device: str, size_gib: int) -> dict[str, Any]:
    """A root volume that is encrypted and goes with its instance."""
    return {
        "DeviceName": device,
        "Ebs": {"VolumeSize": size_gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
    }


def template_data(settings: Settings, *, root_device: str, installation: str) -> dict[str, Any]:
    """What a template of ours holds: no key pair, no public address unless asked for, nothing that stays behind."""
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "AssociatePublicIpAddress": settings.ec2_public_address,
        "DeleteOnTermination": True,
    }
    if settings.ec2_security_groups:
        interface["Groups"] = list(settings.ec2_security_groups)
    own = tag.to_list({tag.INSTALLATION: installation})
    data: dict[str, Any] = {
        "ImageId": settings.ec2_ami,
        "InstanceInitiatedShutdownBehavior": "terminate",
        # Hop limit 2: the agent may sit in a container.
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        "BlockDeviceMappings": [root_volume(device=root_device, size_gib=settings.ec2_volume_gib)],
        "NetworkInterfaces": [interface],
        "TagSpecifications": [{"ResourceType": kind, "Tags": own} for kind in ("instance", "volume")],
    }
    if settings.ec2_instance_profile:
        data["IamInstanceProfile"] = instance_profile(settings.ec2_instance_profile)
    return data


def instance_profile(text: str) -> dict[str, str]:
    """An instance profile by ARN or by name."""
    return {"Arn": text} if text.startswith("arn:") else {"Name": text}
