"""A double on a clock that is moved by hand, and short words for the calls that every test makes."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from include.core.clock import FakeClock
from stack.ec2_double import Ec2Double, Faults, Market, VirtualMachines

IMAGE = "ami-0123456789abcdef0"
TEMPLATE = {
    "ImageId": IMAGE,
    "InstanceInitiatedShutdownBehavior": "terminate",
    "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
}


class World:
    """One double with its clock and a client."""

    def __init__(self, *, faults=None, dead_man_s=None, boot_s=10.0, shutdown_s=20.0, visible_after_s=0.0, **market):
        self.clock = FakeClock()
        self.machines = VirtualMachines(dead_man_s=dead_man_s)
        self.double = Ec2Double(
            self.clock,
            Market.of(**market),
            Faults(faults or ()),
            self.machines,
            boot_s=boot_s,
            shutdown_s=shutdown_s,
            visible_after_s=visible_after_s,
            seed=1,
        )
        self.ec2 = self.double.client()

    def run(self, **parameters):
        """Ids of instances launched by RunInstances."""
        asked = {"ImageId": IMAGE, "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1, **parameters}
        return [shown["InstanceId"] for shown in self.ec2.run_instances(**asked)["Instances"]]

    def run_spot(self, zone="us-east-1a", **parameters):
        """Id of one spot instance in a zone."""
        placed = {"InstanceMarketOptions": {"MarketType": "spot"}, "Placement": {"AvailabilityZone": zone}}
        return self.run(**placed, **parameters)[0]

    def template(self, name="worker", **data):
        """Id of a launch template."""
        answer = self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={**TEMPLATE, **data})
        return answer["LaunchTemplate"]["LaunchTemplateId"]

    def fleet(self, *overrides, purchase="spot", count=1, options=None, token="t", **more):
        """Answer of a CreateFleet over ``(type, zone)`` pairs or whole overrides; makes the template at first."""
        if not self.ec2.describe_launch_templates()["LaunchTemplates"]:
            self.template()
        listed = [o if isinstance(o, dict) else {"InstanceType": o[0], "AvailabilityZone": o[1]} for o in overrides]
        name = "SpotOptions" if purchase == "spot" else "OnDemandOptions"
        return self.ec2.create_fleet(
            **{
                "Type": "instant",
                "ClientToken": token,
                "LaunchTemplateConfigs": [
                    {
                        "LaunchTemplateSpecification": {"LaunchTemplateName": "worker", "Version": "$Latest"},
                        "Overrides": listed,
                    }
                ],
                "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": purchase},
                **({name: options} if options else {}),
                **more,
            }
        )

    def shown(self, instance_id):
        """One instance as DescribeInstances shows it."""
        (reservation,) = self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
        return reservation["Instances"][0]

    def state(self, instance_id):
        return self.shown(instance_id)["State"]["Name"]

    def refusal(self, call, **parameters):
        """Code and HTTP status of a call that must be refused."""
        with pytest.raises(ClientError) as caught:
            call(**parameters)
        response = caught.value.response
        return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.fixture
def world():
    """A double where everything can be had."""
    return World()


@pytest.fixture
def world_of():
    """``world_of(faults=[...], capacity=[...], ...)``: a double by rules of its market and faults."""
    return World
