from datetime import timedelta

import pytest


def test_an_instance_is_pending_then_running_then_shutting_down_then_terminated(world):
    (instance,) = world.run()
    launched = world.clock.now()
    assert world.state(instance) == "pending"
    world.clock.sleep(9.9)
    assert world.state(instance) == "pending"
    world.clock.sleep(0.1)
    shown = world.shown(instance)
    assert (shown["State"], shown["LaunchTime"]) == ({"Code": 16, "Name": "running"}, launched)
    assert shown["StateTransitionReason"] == ""
    assert "StateReason" not in shown
    world.clock.sleep(90)

    (change,) = world.ec2.terminate_instances(InstanceIds=[instance])["TerminatingInstances"]

    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    world.clock.sleep(19.9)
    assert world.state(instance) == "shutting-down"
    world.clock.sleep(0.1)
    shown = world.shown(instance)
    assert shown["State"] == {"Code": 48, "Name": "terminated"}
    assert shown["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert shown["StateTransitionReason"] == "User initiated (2026-01-01 00:01:40 GMT)"
    assert "PrivateIpAddress" not in shown


def test_terminating_twice_keeps_the_first_time(world):
    (instance,) = world.run()
    world.clock.sleep(20)
    world.ec2.terminate_instances(InstanceIds=[instance])
    world.clock.sleep(5)
    world.ec2.terminate_instances(InstanceIds=[instance])
    assert world.shown(instance)["StateTransitionReason"].endswith("(2026-01-01 00:00:20 GMT)")
    world.clock.sleep(15)
    assert world.state(instance) == "terminated"
    assert world.double.counters["instances_ended"] == 1


def test_a_terminated_instance_is_shown_for_an_hour(world):
    (instance,) = world.run()
    world.ec2.terminate_instances(InstanceIds=[instance])
    world.clock.sleep(20 + 3599)
    assert world.state(instance) == "terminated"
    world.clock.sleep(1)
    assert world.refusal(world.ec2.describe_instances, InstanceIds=[instance]) == ("InvalidInstanceID.NotFound", 400)
    assert world.ec2.describe_instances()["Reservations"] == []
    assert len(world.double.instances()) == 1


def test_a_new_instance_may_not_be_shown_yet(world_of):
    world = world_of(visible_after_s=3.0)
    (instance,) = world.run()
    assert world.ec2.describe_instances()["Reservations"] == []
    assert world.refusal(world.ec2.terminate_instances, InstanceIds=[instance])[0] == "InvalidInstanceID.NotFound"
    world.clock.sleep(3)
    assert world.state(instance) == "pending"


def test_tags_come_with_the_launch_and_filters_find_them(world):
    tagged = [{"ResourceType": "instance", "Tags": [{"Key": "plimsoll:lease", "Value": "train-1-g1"}]}]
    (ours,) = world.run(TagSpecifications=tagged)
    (other,) = world.run(InstanceType="g6.xlarge")
    world.clock.sleep(10)
    world.ec2.terminate_instances(InstanceIds=[other])

    def found(**filters):
        wanted = [{"Name": name.replace("_", "-"), "Values": values} for name, values in filters.items()]
        answer = world.ec2.describe_instances(Filters=wanted)
        return {shown["InstanceId"] for reservation in answer["Reservations"] for shown in reservation["Instances"]}

    assert found(**{"tag:plimsoll:lease": ["train-1-*"]}) == {ours}
    assert found(**{"tag-key": ["plimsoll:lease"]}) == {ours}
    assert found(instance_state_name=["running", "pending"]) == {ours}
    assert found(instance_state_name=["shutting-down"], instance_type=["g6.*"]) == {other}
    assert found(instance_type=["g[56].xlarge"]) == set()
    assert world.refusal(world.ec2.describe_instances, Filters=[{"Name": "colour", "Values": ["red"]}]) == (
        "InvalidParameterValue",
        400,
    )


def test_pages_cover_all_instances_once(world):
    ids = set(world.run(MaxCount=5))
    pages = world.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 2})
    listed = [
        [shown["InstanceId"] for reservation in page["Reservations"] for shown in reservation["Instances"]]
        for page in pages
    ]
    assert [len(page) for page in listed] == [2, 2, 1]
    assert {instance for page in listed for instance in page} == ids


def test_options_of_a_launch_template_hold_in_run_instances(world):
    template = world.template(
        InstanceMarketOptions={"MarketType": "spot"},
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "1"}]}
        ],
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100, "Encrypted": True}}],
    )
    answer = world.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": template},
        InstanceType="g5.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "b", "Value": "2"}]}],
    )
    (shown,) = answer["Instances"]
    assert shown["InstanceLifecycle"] == "spot"
    assert shown["MetadataOptions"]["HttpTokens"] == "required"
    assert shown["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    tags = {tag["Key"]: tag["Value"] for tag in shown["Tags"] if not tag["Key"].startswith("aws:")}
    assert tags == {"a": "1", "b": "2"}
    (volume,) = world.ec2.describe_volumes()["Volumes"]
    assert (volume["Size"], volume["Encrypted"], volume["State"]) == (100, True, "in-use")


def test_without_a_template_metadata_tokens_are_optional_and_shutdown_stops(world):
    (instance,) = world.run()
    assert world.shown(instance)["MetadataOptions"]["HttpTokens"] == "optional"
    world.clock.sleep(10)
    world.double.tick()
    world.machines.exit(instance, at=world.clock.now())
    world.clock.sleep(30)
    shown = world.shown(instance)
    assert (shown["State"]["Name"], shown["StateReason"]["Code"]) == ("stopped", "Client.InstanceInitiatedShutdown")
    world.ec2.terminate_instances(InstanceIds=[instance])
    assert world.state(instance) == "terminated"


def test_stopping_is_for_on_demand_alone(world):
    (lasting,) = world.run()
    spot = world.run_spot()
    world.clock.sleep(10)
    assert world.refusal(world.ec2.stop_instances, InstanceIds=[spot])[0] == "UnsupportedOperation"
    world.ec2.stop_instances(InstanceIds=[lasting])
    assert world.state(lasting) == "stopping"
    world.clock.sleep(20)
    assert world.state(lasting) == "stopped"


def test_a_protected_instance_is_not_terminated_nor_are_those_named_with_it(world):
    (protected,) = world.run(DisableApiTermination=True)
    (other,) = world.run()
    wanted = [other, protected]
    assert world.refusal(world.ec2.terminate_instances, InstanceIds=wanted) == ("OperationNotPermitted", 400)
    assert world.state(other) == "pending"


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"InstanceType": "g99.xlarge"}, "InvalidParameterValue"),
        ({"ImageId": "ami-nonsense"}, "InvalidAMIID.Malformed"),
        ({"MinCount": 2}, "InvalidParameterValue"),
        ({"UserData": "x" * 16385}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"Placement": {"AvailabilityZone": "us-east-1z"}}, "InvalidParameterValue"),
        ({"LaunchTemplate": {"LaunchTemplateName": "none"}}, "InvalidLaunchTemplateName.NotFoundException"),
        ({"ClientToken": "t" * 65}, "InvalidParameterValue"),
        (
            {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "persistent"}}},
            "UnsupportedOperation",
        ),
    ],
)
def test_what_ec2_refuses_is_refused(world, parameters, code):
    asked = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1, **parameters}
    assert world.refusal(world.ec2.run_instances, **asked) == (code, 400)
    assert world.double.instances() == ()


def test_a_dry_run_launches_nothing_and_tells_missing_permissions(world):
    asked = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
    assert world.refusal(world.ec2.run_instances, **asked, DryRun=True) == ("DryRunOperation", 412)
    world.double.faults.forbidden.add("Run*")
    assert world.refusal(world.ec2.run_instances, **asked, DryRun=True) == ("UnauthorizedOperation", 403)
    assert world.refusal(world.ec2.run_instances, **asked) == ("UnauthorizedOperation", 403)
    assert world.double.instances() == ()


def test_regions_do_not_see_each_other(world):
    (here,) = world.run()
    there = world.double.client(region="us-west-2")
    assert there.describe_instances()["Reservations"] == []
    assert world.refusal(there.terminate_instances, InstanceIds=[here])[0] == "InvalidInstanceID.NotFound"


def test_a_status_is_given_of_running_instances_unless_all_are_asked_for(world):
    world.run()
    assert world.ec2.describe_instance_status()["InstanceStatuses"] == []
    (status,) = world.ec2.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"]
    assert status["InstanceState"]["Name"] == "pending"
    world.clock.sleep(10)
    (status,) = world.ec2.describe_instance_status()["InstanceStatuses"]
    assert status["InstanceStatus"]["Status"] == "ok"


def test_the_waiter_of_boto3_is_served(world):
    (instance,) = world.run()
    world.clock.sleep(10)
    world.ec2.get_waiter("instance_running").wait(InstanceIds=[instance], WaiterConfig={"MaxAttempts": 1})


def test_an_instance_that_ends_while_pending_never_ran(world):
    (instance,) = world.run()
    world.clock.sleep(5)
    world.ec2.terminate_instances(InstanceIds=[instance])
    world.clock.sleep(60)
    assert world.state(instance) == "terminated"
    assert world.machines.running == ()
    (known,) = world.double.instances()
    assert known.running_at is None
    assert known.ended_at - known.launched_at == timedelta(seconds=25)
