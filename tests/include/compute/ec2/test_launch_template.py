"""A launch template made elsewhere is used only if nothing of it stays, and costs, after the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.core.errors import LaunchRefusedError
from tests.support.ec2_rig import Rig

VOLUME = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 500}}


def launch_from(folder: Path, data: dict[str, Any]) -> Rig:
    rig = Rig(folder=folder)
    safe = {
        "ImageId": rig.settings.ec2_ami,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
    }
    rig.double.client("ec2").create_launch_template(
        LaunchTemplateName=rig.settings.ec2_launch_template, LaunchTemplateData={**safe, **data}
    )
    rig.engine.launch(rig.request())
    return rig


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"BlockDeviceMappings": [VOLUME]}, "volume /dev/sdf has no DeleteOnTermination=true"),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"DeleteOnTermination": False}}]},
            "volume /dev/sda1 has no DeleteOnTermination=true",
        ),
        (
            {"NetworkInterfaces": [{"DeviceIndex": 0, "DeleteOnTermination": False}]},
            "network interface 0 stays: DeleteOnTermination=false",
        ),
        ({"Placement": {"Tenancy": "dedicated"}}, "Placement.Tenancy is 'dedicated'"),
        ({"Placement": {"Tenancy": "host"}}, "Placement.Tenancy is 'host'"),
        ({"Placement": {"HostId": "h-0123456789abcdef0"}}, "Placement.HostId is set"),
        ({"HibernationOptions": {"Configured": True}}, "HibernationOptions is set"),
        ({"DisableApiStop": True}, "DisableApiStop is set"),
        ({"DisableApiTermination": True}, "DisableApiTermination is set"),
        (
            {"InstanceRequirements": {"VCpuCount": {"Min": 1}, "MemoryMiB": {"Min": 1}}},
            "InstanceRequirements is set",
        ),
    ],
)
def test_what_would_leave_money_behind_is_refused_in_one_line(tmp_path: Path, data: dict[str, Any], told: str):
    with pytest.raises(LaunchRefusedError) as caught:
        launch_from(tmp_path, data)
    assert told in str(caught.value)
    assert "plimsoll-worker" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path):
    with pytest.raises(LaunchRefusedError, match=r"DisableApiStop.*/dev/sdf.*Placement\.Tenancy"):
        launch_from(
            tmp_path,
            {"BlockDeviceMappings": [VOLUME], "DisableApiStop": True, "Placement": {"Tenancy": "dedicated"}},
        )


def test_a_template_that_says_that_everything_goes_is_used(tmp_path: Path):
    rig = launch_from(
        tmp_path,
        {
            "BlockDeviceMappings": [
                {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 500, "DeleteOnTermination": True}},
                {"DeviceName": "/dev/sdg", "VirtualName": "ephemeral0"},
            ],
            "DisableApiTermination": False,
            "HibernationOptions": {"Configured": False},
            "Placement": {"Tenancy": "default"},
        },
    )
    assert len(rig.living()) == 1
