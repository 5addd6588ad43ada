"""One of everything that a lease can have on EC2, made in a moto server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from include.compute.ec2 import tags as tag
from include.core.contracts.lease import LaunchRequest

AMI = "ami-12c6146b"


def client_of(endpoint: str) -> Any:
    """Client of EC2 in a moto server."""
    import boto3

    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    return boto3.client("ec2", endpoint_url=endpoint, region_name="us-east-1", **keys)


def tags_of(lease_id: str, *, installation: str, run_id: str = "r1", expires_at: float = 4e9) -> dict[str, str]:
    """Tags as the engine writes them."""
    request = LaunchRequest(
        lease_id=lease_id, group_id=lease_id.rpartition("-g")[0], run_id=run_id, dag_id="d", expires_after_s=60
    )
    return tag.lease_tags(request, installation=installation, expires_at=expires_at, launch=1)


@dataclass
class Shop:
    """Makes resources with given tags.

    Attributes:
        ec2: Client of EC2.
        made: Ids of what was made.
    """

    ec2: Any
    made: list[str] = field(default_factory=list)

    def instance(self, tags: dict[str, str]) -> str:
        answer = self.ec2.run_instances(
            ImageId=AMI, MinCount=1, MaxCount=1, InstanceType="g5.xlarge", **self._spec(tags, "instance", "volume")
        )
        return self._keep(answer["Instances"][0]["InstanceId"])

    def volume(self, tags: dict[str, str]) -> str:
        made = self.ec2.create_volume(AvailabilityZone="us-east-1a", Size=8, **self._spec(tags, "volume"))
        return self._keep(made["VolumeId"])

    def spot_request(self, tags: dict[str, str]) -> str:
        made = self.ec2.request_spot_instances(
            InstanceCount=1,
            LaunchSpecification={"ImageId": AMI, "InstanceType": "g5.xlarge"},
            **self._spec(tags, "spot-instances-request"),
        )
        return self._keep(made["SpotInstanceRequests"][0]["SpotInstanceRequestId"])

    def launch_template(self, tags: dict[str, str], *, name: str) -> str:
        made = self.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": AMI, "InstanceType": "g5.xlarge"},
            **self._spec(tags, "launch-template"),
        )
        return self._keep(made["LaunchTemplate"]["LaunchTemplateId"])

    def fleet(self, tags: dict[str, str], *, template: str, kind: str = "maintain") -> str:
        made = self.ec2.create_fleet(
            Type=kind,
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"}}],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            **self._spec(tags, "fleet"),
        )
        return self._keep(made["FleetId"])

    def address(self, tags: dict[str, str]) -> str:
        return self._keep(self.ec2.allocate_address(Domain="vpc", **self._spec(tags, "elastic-ip"))["AllocationId"])

    def interface(self, tags: dict[str, str]) -> str:
        subnet = self.ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        made = self.ec2.create_network_interface(SubnetId=subnet, **self._spec(tags, "network-interface"))
        return self._keep(made["NetworkInterface"]["NetworkInterfaceId"])

    def snapshot(self, tags: dict[str, str], *, volume: str) -> str:
        return self._keep(self.ec2.create_snapshot(VolumeId=volume, **self._spec(tags, "snapshot"))["SnapshotId"])

    def one_of_each(self, tags: dict[str, str], *, name: str) -> None:
        """Everything that one lease can have."""
        self.instance(tags)
        self.snapshot(tags, volume=self.volume(tags))
        self.spot_request(tags)
        self.fleet(tags, template=self.launch_template(tags, name=name))
        self.address(tags)
        self.interface(tags)

    def _keep(self, name: str) -> str:
        self.made.append(name)
        return name

    @staticmethod
    def _spec(tags: dict[str, str], *kinds: str) -> dict[str, Any]:
        return {"TagSpecifications": [{"ResourceType": kind, "Tags": tag.to_list(tags)} for kind in kinds]}
