import pytest

from include.core.clock import FakeClock
from stack.ec2_double import Ec2Double

RUN = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}


def test_the_same_token_makes_one_instance_and_shows_it_as_it_is_now(world):
    first = world.ec2.run_instances(**RUN, ClientToken="one")["Instances"][0]
    world.clock.sleep(10)
    again = world.ec2.run_instances(**RUN, ClientToken="one")["Instances"][0]
    assert again["InstanceId"] == first["InstanceId"]
    assert (first["State"]["Name"], again["State"]["Name"]) == ("pending", "running")
    world.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])
    world.clock.sleep(60)
    ended = world.ec2.run_instances(**RUN, ClientToken="one")["Instances"][0]
    assert (ended["InstanceId"], ended["State"]["Name"]) == (first["InstanceId"], "terminated")
    assert len(world.double.instances()) == 1


def test_other_parameters_with_the_same_token_are_a_mismatch(world):
    world.run(ClientToken="one")
    asked = {**RUN, "InstanceType": "g6.xlarge", "ClientToken": "one"}
    assert world.refusal(world.ec2.run_instances, **asked) == ("IdempotentParameterMismatch", 400)


def test_a_token_holds_for_its_region_and_action(world):
    world.run(ClientToken="one")
    assert world.double.client(region="us-west-2").run_instances(**RUN, ClientToken="one")["Instances"]
    assert world.fleet(("g5.xlarge", "us-east-1a"), token="one")["Instances"]
    assert len(world.double.instances()) == 3


def test_a_refusal_uses_up_no_token(world_of):
    world = world_of(capacity=[{"until_s": 60, "instances": 0}])
    asked = {**RUN, "ClientToken": "one"}
    assert world.refusal(world.ec2.run_instances, **asked) == ("InsufficientInstanceCapacity", 500)
    world.clock.sleep(60)
    assert len(world.run(ClientToken="one")) == 1


def test_a_dry_run_uses_up_no_token(world):
    world.refusal(world.ec2.run_instances, **RUN, ClientToken="one", DryRun=True)
    assert len(world.run(ClientToken="one", InstanceType="g6.xlarge")) == 1


def test_a_replayed_instant_fleet_answers_the_same_when_its_instances_have_ended(world):
    first = world.fleet(("g5.xlarge", "us-east-1a"), count=2)
    ids = first["Instances"][0]["InstanceIds"]
    world.ec2.terminate_instances(InstanceIds=ids)
    world.clock.sleep(5000)
    again = world.fleet(("g5.xlarge", "us-east-1a"), count=2)
    assert (again["FleetId"], again["Instances"]) == (first["FleetId"], first["Instances"])
    assert len(world.double.instances()) == 2


def test_a_replayed_fleet_without_instances_stays_without(world_of):
    world = world_of(capacity=[{"until_s": 60, "instances": 0}])
    first = world.fleet(("g5.xlarge", "us-east-1a"))
    assert first["Instances"] == []
    world.clock.sleep(600)
    assert world.fleet(("g5.xlarge", "us-east-1a"))["Instances"] == []
    assert world.fleet(("g5.xlarge", "us-east-1a"), token="two")["Instances"]


def test_a_launch_template_is_made_once(world):
    asked = {"LaunchTemplateName": "w-1", "LaunchTemplateData": {"ImageId": "ami-12345678"}, "ClientToken": "one"}
    first = world.ec2.create_launch_template(**asked)["LaunchTemplate"]["LaunchTemplateId"]
    assert world.ec2.create_launch_template(**asked)["LaunchTemplate"]["LaunchTemplateId"] == first
    without = {**asked, "ClientToken": "two"}
    code = "InvalidLaunchTemplateName.AlreadyExistsException"
    assert world.refusal(world.ec2.create_launch_template, **without) == (code, 400)


@pytest.mark.parametrize("call", ["run_instances", "create_fleet"])
def test_after_a_lost_answer_the_same_call_finds_what_was_made(world, call):
    from botocore.exceptions import ConnectionClosedError

    world.template()
    action = {"run_instances": "RunInstances", "create_fleet": "CreateFleet"}[call]
    world.double.faults.add(action=action, after=True)
    again = {
        "run_instances": lambda: world.run(ClientToken="one"),
        "create_fleet": lambda: world.fleet(("g5.xlarge", "us-east-1a"))["Instances"][0]["InstanceIds"],
    }[call]
    with pytest.raises(ConnectionClosedError):
        again()
    (instance,) = world.double.instances()
    assert again() == [instance.instance_id]
    assert len(world.double.instances()) == 1


def test_two_doubles_in_one_process_do_not_meet():
    one, other = Ec2Double(FakeClock()), Ec2Double(FakeClock())
    assert one.account_id != other.account_id
    first = one.client().run_instances(**RUN, ClientToken="t")["Instances"][0]["InstanceId"]
    second = other.client().run_instances(**RUN, ClientToken="t")["Instances"][0]["InstanceId"]
    assert first != second
    assert (len(one.instances()), len(other.instances())) == (1, 1)
