import pytest

TAGS = [{"Key": "plimsoll:installation", "Value": "abc"}]


def tagged(kind):
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": TAGS}]}


OURS = [{"Name": "tag:plimsoll:installation", "Values": ["abc"]}]


def test_root_volumes_and_interfaces_go_with_their_instance(world):
    (instance,) = world.run()
    (volume,) = world.ec2.describe_volumes()["Volumes"]
    (interface,) = world.ec2.describe_network_interfaces()["NetworkInterfaces"]
    assert volume["Attachments"][0]["InstanceId"] == interface["Attachment"]["InstanceId"] == instance
    assert world.refusal(world.ec2.delete_volume, VolumeId=volume["VolumeId"]) == ("VolumeInUse", 400)
    world.ec2.terminate_instances(InstanceIds=[instance])
    assert world.ec2.describe_volumes()["Volumes"]
    world.clock.sleep(20)
    assert world.ec2.describe_volumes()["Volumes"] == []
    assert world.ec2.describe_network_interfaces()["NetworkInterfaces"] == []


def test_a_volume_that_is_told_to_stay_stays(world):
    ebs = {"VolumeSize": 50, "DeleteOnTermination": False}
    interface = {"DeviceIndex": 0, "DeleteOnTermination": False, "AssociatePublicIpAddress": False}
    (instance,) = world.run(
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": ebs}],
        NetworkInterfaces=[interface],
        **tagged("volume"),
    )
    assert "PublicIpAddress" not in world.shown(instance)
    world.ec2.terminate_instances(InstanceIds=[instance])
    world.clock.sleep(20)
    world.double.tick()
    (volume,) = world.ec2.describe_volumes(Filters=[*OURS, {"Name": "status", "Values": ["available"]}])["Volumes"]
    (left,) = world.ec2.describe_network_interfaces(Filters=[{"Name": "status", "Values": ["available"]}])[
        "NetworkInterfaces"
    ]
    world.ec2.delete_volume(VolumeId=volume["VolumeId"])
    world.ec2.delete_network_interface(NetworkInterfaceId=left["NetworkInterfaceId"])
    assert world.ec2.describe_volumes()["Volumes"] == []
    assert world.ec2.describe_network_interfaces()["NetworkInterfaces"] == []


def test_volumes_snapshots_and_addresses_are_made_found_by_tag_and_deleted(world):
    ec2 = world.ec2
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=5, **tagged("volume"))["VolumeId"]
    snapshot = ec2.create_snapshot(VolumeId=volume, **tagged("snapshot"))["SnapshotId"]
    address = ec2.allocate_address(Domain="vpc", **tagged("elastic-ip"))["AllocationId"]
    (instance,) = world.run()
    association = ec2.associate_address(AllocationId=address, InstanceId=instance)["AssociationId"]

    assert [each["VolumeId"] for each in ec2.describe_volumes(Filters=OURS)["Volumes"]] == [volume]
    (found,) = ec2.describe_snapshots(OwnerIds=["self"], Filters=OURS)["Snapshots"]
    assert (found["SnapshotId"], found["VolumeSize"]) == (snapshot, 5)
    (found,) = ec2.describe_addresses(Filters=OURS)["Addresses"]
    assert (found["AllocationId"], found["AssociationId"]) == (address, association)

    ec2.disassociate_address(AssociationId=association)
    ec2.release_address(AllocationId=address)
    ec2.delete_snapshot(SnapshotId=snapshot)
    ec2.delete_volume(VolumeId=volume)
    assert ec2.describe_addresses(Filters=OURS)["Addresses"] == []
    assert ec2.describe_snapshots(Filters=OURS)["Snapshots"] == []
    for call, argument in (
        (ec2.release_address, {"AllocationId": address}),
        (ec2.delete_snapshot, {"SnapshotId": snapshot}),
        (ec2.delete_volume, {"VolumeId": volume}),
    ):
        code, status = world.refusal(call, **argument)
        assert code.endswith(".NotFound")
        assert status == 400


def test_cancelling_a_spot_request_leaves_its_instance(world):
    spot = world.run_spot(**tagged("spot-instances-request"))
    (request,) = world.ec2.describe_spot_instance_requests(Filters=OURS)["SpotInstanceRequests"]
    assert (request["State"], request["InstanceId"]) == ("active", spot)
    (answer,) = world.ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[request["SpotInstanceRequestId"]])[
        "CancelledSpotInstanceRequests"
    ]
    assert answer["State"] == "cancelled"
    assert world.state(spot) == "pending"


@pytest.mark.parametrize("kind", ["instance", "volume", "fleet", "launch-template"])
def test_tags_can_be_set_and_taken_off_everything(world, kind):
    fleet = world.fleet(("g5.xlarge", "us-east-1a"))
    resource = {
        "instance": lambda: fleet["Instances"][0]["InstanceIds"][0],
        "volume": lambda: world.ec2.describe_volumes()["Volumes"][0]["VolumeId"],
        "fleet": lambda: fleet["FleetId"],
        "launch-template": lambda: world.ec2.describe_launch_templates()["LaunchTemplates"][0]["LaunchTemplateId"],
    }[kind]()

    def tags():
        found = world.ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [resource]}])["Tags"]
        assert {tag["ResourceType"] for tag in found} <= {kind}
        return {tag["Key"]: tag["Value"] for tag in found if not tag["Key"].startswith("aws:")}

    world.ec2.create_tags(Resources=[resource], Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    world.ec2.create_tags(Resources=[resource], Tags=[{"Key": "a", "Value": "3"}])
    assert tags() == {"a": "3", "b": "2"}
    world.ec2.delete_tags(Resources=[resource], Tags=[{"Key": "a", "Value": "other"}, {"Key": "b"}])
    assert tags() == {"a": "3"}


def test_tags_of_aws_and_unknown_resources_are_refused(world):
    (instance,) = world.run()
    reserved = {"Resources": [instance], "Tags": [{"Key": "aws:x", "Value": "1"}]}
    assert world.refusal(world.ec2.create_tags, **reserved)[0] == "InvalidParameterValue"
    unknown = {"Resources": ["i-0123456789abcdef0"], "Tags": [{"Key": "x", "Value": "1"}]}
    assert world.refusal(world.ec2.create_tags, **unknown)[0] == "InvalidID"


def test_there_is_one_default_network(world):
    subnets = world.ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    zones = world.ec2.describe_availability_zones()["AvailabilityZones"]
    assert [each["AvailabilityZone"] for each in subnets] == [each["ZoneName"] for each in zones]
    assert zones[0]["ZoneId"] == "use1-az1"
    (vpc,) = world.ec2.describe_vpcs()["Vpcs"]
    (group,) = world.ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])[
        "SecurityGroups"
    ]
    assert group["GroupName"] == "default"
    code = "InvalidSubnetID.NotFound"
    assert world.refusal(world.ec2.describe_subnets, SubnetIds=["subnet-0"]) == (code, 400)
