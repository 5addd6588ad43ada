"""Settings of rented capacity: which engine, and how it launches on EC2. Part of `include.config.settings.Settings`."""

from __future__ import annotations

import re
from typing import ClassVar

from pydantic import Field, ValidationInfo, field_validator

from include.config.schedule import Edge

# Settings of several values, separated by ':' in the environment.
CAPACITY_LISTS = ("ec2_subnets", "ec2_security_groups")


class CapacitySettings(Edge):
    """Where leases of runs live and what may be asked of a cloud."""

    engine: str = Field(
        default="local",
        pattern="^(local|ec2)$",
        description="Engine of trainings whose workload names none: `local` (this machine) or `ec2`.",
    )
    ec2_region: str = Field(
        default="us-east-1", pattern=r"^[a-z]{2}(-[a-z]+)+-\d$", description="Region that this installation rents in."
    )
    ec2_launch_template: str = Field(
        default="plimsoll-worker",
        pattern=r"^[A-Za-z0-9()./_-]{3,128}$",
        description="Name of the launch template of workers; created when there is none.",
    )
    ec2_ami: str = Field(
        default="",
        pattern=r"^(ami-[0-9a-f]{8,17})?$",
        description="Machine image of workers; empty takes the launch template's own.",
    )
    ec2_instance_profile: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9_+=,.@-]{1,128}|arn:aws[a-z-]*:iam::\d{12}:instance-profile/[A-Za-z0-9_+=,.@/-]{1,640})?$",
        description="Instance profile that lets workers read and write the store; empty: the template's.",
    )
    ec2_subnets: tuple[str, ...] = Field(
        default=(), description="Subnets that workers may run in, separated by ':'; empty: the default network's."
    )
    ec2_security_groups: tuple[str, ...] = Field(
        default=(), description="Security groups of workers, separated by ':'; empty: the launch template's."
    )
    ec2_public_address: bool = Field(default=False, description="Give workers a public address.")
    ec2_worker_image: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._:/@-]{0,511})?$",
        description="Container image of workers; empty installs the wheel of `ec2_worker_wheel`.",
    )
    ec2_worker_wheel: str = Field(
        default="",
        description="S3 URI of the worker wheel, or of a folder of wheels (it ends with '/'), for machine images with "
        "Python and torch.",
    )
    ec2_volume_gib: int = Field(default=100, ge=8, le=16_384, description="Root volume of a worker, GiB.")
    ec2_work_type: str = Field(
        default="",
        pattern=r"^([a-z][a-z0-9-]*\.[a-z0-9-]+)?$",
        description="Instance type of the `work` lease (compression, evaluation); empty works on this machine.",
    )
    ec2_dead_man_s: float = Field(
        default=1800.0,
        ge=300,
        le=86_400,
        description="Seconds after which an instance shuts itself down unless its agent says that all is well.",
    )
    capacity_wait_s: float = Field(
        default=3600.0, ge=0, description="Seconds that a lease may wait for capacity, apart from all running times."
    )
    cost_centre: str = Field(
        default="", pattern=r"^[A-Za-z0-9 _.:/=+@-]{0,128}$", description="Cost centre, a tag of everything rented."
    )
    quota_file: str = Field(
        default="",
        description="YAML file of what each team may hold and spend, absolute or from the project's folder; empty has "
        "none.",
    )
    notify_connections: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9_.-]+(,[A-Za-z0-9_.-]+)*)?$",
        description="Airflow connections of webhooks that hear of interruptions, budgets and quotas, by commas.",
    )

    _IDS: ClassVar[dict[str, str]] = {"ec2_subnets": "subnet", "ec2_security_groups": "sg"}

    @field_validator("ec2_subnets", "ec2_security_groups")
    @classmethod
    def _are_ids(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        kind = cls._IDS[info.field_name or ""]
        if not all(re.fullmatch(rf"{kind}-[0-9a-f]{{8,17}}", each) for each in value):
            raise ValueError(f"ids such as {kind}-0123456789abcdef0, separated by ':'")
        return value

    @field_validator("ec2_worker_wheel")
    @classmethod
    def _is_in_a_bucket(cls, value: str) -> str:
        # Instances fetch it with `aws s3 cp`, which knows no other kind of store.
        if value and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._+=!-]+)*(/|\.whl)", value):
            raise ValueError("a URI such as s3://bucket/wheels/name.whl, or s3://bucket/wheels/ for a folder")
        return value
