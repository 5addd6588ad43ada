import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from stack.ec2_double import Ec2Double

A = "us-east-1a"


class Direct:
    """Makes `World` use the direct client."""

    @staticmethod
    def of(world):
        world.ec2 = world.double.direct_client()
        return world


def story(world):
    """The same calls, and what they brought, without ids."""
    world.template()
    answer = world.fleet((("g5.xlarge"), A), ("g6.xlarge", A), count=3)
    ids = [each for group in answer["Instances"] for each in group["InstanceIds"]]
    (own,) = world.run(UserData="#!/bin/sh\n", ClientToken="one")
    world.clock.sleep(15)
    world.ec2.create_tags(Resources=ids, Tags=[{"Key": "k", "Value": "v"}])
    world.ec2.terminate_instances(InstanceIds=ids[:1])
    pages = world.ec2.get_paginator("describe_instances").paginate(Filters=[{"Name": "tag:k", "Values": ["v"]}])
    return {
        "fleet": [{k: v for k, v in group.items() if k != "InstanceIds"} for group in answer["Instances"]],
        "errors": answer["Errors"],
        "pages": [
            sorted(each["State"]["Name"] for r in page["Reservations"] for each in r["Instances"]) for page in pages
        ],
        "own": world.shown(own),
        "types": world.ec2.describe_instance_type_offerings(
            Filters=[{"Name": "instance-type", "Values": ["g5.xlarge"]}]
        )["InstanceTypeOfferings"],
        "volumes": sorted(volume["State"] for volume in world.ec2.describe_volumes()["Volumes"]),
        "user_data": world.double.instances()[-1].user_data,
        "refusal": world.refusal(world.ec2.describe_instances, InstanceIds=["i-0"]),
        "again": world.run(UserData="#!/bin/sh\n", ClientToken="one") == [own],
    }


def test_both_clients_tell_the_same_story(world_of):
    market = {"capacity": [{"type": "g5.*", "instances": 2}]}
    direct, requested = story(Direct.of(world_of(**market))), story(world_of(**market))
    assert direct == requested
    assert direct["own"]["State"]["Name"] == "running"
    assert direct["pages"] == [["running", "running", "shutting-down"]]


def test_faults_and_permissions_reach_the_direct_client(world):
    direct = world.double.direct_client()
    world.double.faults.add(action="DescribeInstances", match={"Filter.1.Name": "tag:.*"}, code="RequestLimitExceeded")
    filters = [{"Name": "tag:k", "Values": ["v"]}]
    with pytest.raises(direct.exceptions.ClientError, match="RequestLimitExceeded") as caught:
        direct.describe_instances(Filters=filters)
    assert isinstance(caught.value, ClientError)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    world.double.faults.add(action="CreateVolume", after=True)
    with pytest.raises(ConnectionClosedError):
        direct.create_volume(AvailabilityZone=A, Size=1)
    assert len(direct.describe_volumes()["Volumes"]) == 1


def test_what_it_gives_can_be_changed_without_harm(world):
    direct = world.double.direct_client()
    volume = direct.create_volume(AvailabilityZone=A, Size=1)["VolumeId"]
    direct.describe_volumes()["Volumes"][0]["Tags"].append({"Key": "k", "Value": "v"})
    (shown,) = direct.describe_volumes()["Volumes"]
    assert (shown["VolumeId"], shown["Tags"]) == (volume, [])


def test_quotas_and_prices_are_there_and_what_moto_has_is_not(world):
    quotas = world.double.direct_client("service-quotas")
    assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]["Value"] > 0
    direct = world.double.direct_client()
    assert (direct.can_paginate("describe_volumes"), direct.can_paginate("describe_addresses")) == (True, False)
    with pytest.raises(ClientError, match="left to moto"):
        direct.describe_regions()
    with pytest.raises(AttributeError):
        direct.describe_everything()


def test_it_is_cheap_enough_for_thousands_of_sequences():
    import time

    double = Ec2Double()
    ec2 = double.direct_client()
    asked = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
    ec2.run_instances(**asked)
    began = time.process_time()
    for _ in range(100):
        ec2.describe_instances(Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}])
    assert (time.process_time() - began) / 100 < 0.005
