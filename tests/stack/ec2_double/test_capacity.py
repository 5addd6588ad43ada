import json

import pytest

from include.core.clock import FakeClock
from stack.ec2_double import Ec2Double, Market

A, B = "us-east-1a", "us-east-1b"


def test_capacity_is_counted_per_type_purchase_and_zone(world_of):
    world = world_of(capacity=[{"purchase": "spot", "zone": A, "instances": 1}])
    world.run_spot(A)
    with pytest.raises(Exception, match="InsufficientInstanceCapacity"):
        world.run_spot(A)
    world.run_spot(B)
    world.run_spot(A, InstanceType="g6.xlarge")
    world.run(Placement={"AvailabilityZone": A})


def test_capacity_comes_back_when_an_instance_ends(world_of):
    world = world_of(capacity=[{"zone": A, "instances": 1}])
    first = world.run_spot(A)
    world.ec2.terminate_instances(InstanceIds=[first])
    assert world.run_spot(A) != first


def test_without_a_zone_run_instances_goes_where_there_is_room(world_of):
    world = world_of(capacity=[{"instances": 0}, {"zone": "us-east-1d", "instances": 3}])
    (instance, other) = world.run(MinCount=2, MaxCount=2)
    assert {world.shown(each)["Placement"]["AvailabilityZone"] for each in (instance, other)} == {"us-east-1d"}
    asked = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 2, "MaxCount": 4}
    assert world.refusal(world.ec2.run_instances, **asked) == ("InsufficientInstanceCapacity", 500)
    assert len(world.run(MinCount=1, MaxCount=4)) == 1


def test_quotas_are_apart_by_family_and_purchase(world_of):
    world = world_of(quotas={"L-DB2E81BA": 4, "L-3819A6DF": 4})
    world.run()
    asked = {"ImageId": "ami-12345678", "InstanceType": "g4dn.xlarge", "MinCount": 1, "MaxCount": 1}
    assert world.refusal(world.ec2.run_instances, **asked) == ("VcpuLimitExceeded", 400)
    spot = {**asked, "InstanceMarketOptions": {"MarketType": "spot"}}
    world.ec2.run_instances(**spot)
    assert world.refusal(world.ec2.run_instances, **spot) == ("MaxSpotInstanceCountExceeded", 400)
    world.run(InstanceType="m7i.large")


def test_a_trace_that_turns_takes_the_youngest_spot_instance_away_after_its_notice(world_of):
    rules = [{"purchase": "spot", "zone": A, "instances": 2}]
    fewer = {"purchase": "spot", "zone": A, "from_s": 300, "instances": 1}
    world = world_of(capacity=[*rules, fewer], notice_s=120)
    old = world.run_spot(A)
    world.clock.sleep(60)
    young = world.run_spot(A)
    (lasting,) = world.run(Placement={"AvailabilityZone": A})
    world.clock.sleep(240)
    world.double.tick()
    assert set(world.machines.notices) == {young}
    request = world.ec2.describe_spot_instance_requests(Filters=[{"Name": "instance-id", "Values": [young]}])[
        "SpotInstanceRequests"
    ][0]
    assert (request["State"], request["Status"]["Code"]) == ("active", "marked-for-termination")
    world.clock.sleep(119)
    assert world.state(young) == "running"
    world.clock.sleep(100)
    shown = world.shown(young)
    assert shown["State"]["Name"] == "terminated"
    assert shown["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert shown["StateTransitionReason"] == "Service initiated (2026-01-01 00:07:00 GMT)"
    assert (world.state(old), world.state(lasting)) == ("running", "running")
    (request,) = world.ec2.describe_spot_instance_requests(Filters=[{"Name": "instance-id", "Values": [young]}])[
        "SpotInstanceRequests"
    ]
    assert (request["State"], request["Status"]["Code"]) == ("closed", "instance-terminated-no-capacity")


def test_published_traces_drive_capacity(tmp_path):
    for zone, data in {A: [1, 1, 0, 0, 1], B: [0, 0, 0, 1, 1]}.items():
        document = {"metadata": {"gap_seconds": 195}, "data": data}
        (tmp_path / f"{zone}.json").write_text(json.dumps(document))
    market = Market.from_traces({zone: tmp_path / f"{zone}.json" for zone in (A, B)})
    clock = FakeClock()
    ec2 = Ec2Double(clock, market, boot_s=1).client()

    def spot(zone):
        asked = {"ImageId": "ami-12345678", "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1}
        placed = {"InstanceMarketOptions": {"MarketType": "spot"}, "Placement": {"AvailabilityZone": zone}}
        try:
            return ec2.run_instances(**asked, **placed)["Instances"][0]["InstanceId"]
        except ec2.exceptions.ClientError as error:
            return error.response["Error"]["Code"]

    full = "InsufficientInstanceCapacity"
    first = spot(A)
    assert (first[:2], spot(B), spot("us-east-1c")) == ("i-", full, full)
    clock.sleep(390)  # the first zone turns here
    assert (spot(A), spot(B)) == (full, full)
    clock.sleep(195)
    assert (spot(A), spot(B)[:2]) == (full, "i-")
    (gone,) = ec2.describe_instances(InstanceIds=[first])["Reservations"][0]["Instances"]
    assert gone["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    clock.sleep(195)
    assert spot(A)[:2] == "i-"
    clock.sleep(195 * 100)
    assert spot(A)[:2] == "i-"  # after its end the last word of a trace holds


def test_a_planned_reclaim_takes_the_nth_spot_instance_once(world_of):
    world = world_of(reclaims=[{"nth": 2, "after_s": 30, "notice_s": 15}])
    ids = [world.run_spot(A) for _ in range(3)]
    world.clock.sleep(10 + 30 + 14)
    assert [world.state(each) for each in ids] == ["running"] * 3
    assert set(world.machines.notices) == {ids[1]}
    world.clock.sleep(1)
    assert [world.state(each) for each in ids] == ["running", "shutting-down", "running"]


def test_interrupting_by_hand_and_a_notice_of_no_length(world):
    spot = world.run_spot(A)
    (lasting,) = world.run()
    world.clock.sleep(10)
    world.double.interrupt(spot, notice_s=30)
    world.double.interrupt(spot, notice_s=0)  # the first notice holds
    world.clock.sleep(29)
    assert world.state(spot) == "running"
    world.clock.sleep(1)
    assert world.state(spot) == "shutting-down"
    second = world.run_spot(A)
    world.clock.sleep(10)
    world.double.interrupt(second, notice_s=0)
    assert world.state(second) == "shutting-down"
    assert world.state(lasting) == "running"


def test_a_rebalance_recommendation_comes_before_the_notice(world_of):
    world = world_of(capacity=[{"zone": A, "from_s": 100, "instances": 0}], rebalance_lead_s=60, notice_s=120)
    spot = world.run_spot(A)
    world.clock.sleep(100)
    world.double.tick()
    assert (set(world.machines.advised), world.machines.notices) == ({spot}, {})
    world.clock.sleep(60)
    world.double.tick()
    assert set(world.machines.notices) == {spot}
    world.clock.sleep(120)
    assert world.state(spot) == "shutting-down"


def test_events_between_two_looks_happen_at_their_own_time(world_of):
    world = world_of(reclaims=[{"nth": 1, "after_s": 100, "notice_s": 50}])
    spot = world.run_spot(A)
    world.clock.sleep(10_000)
    (known,) = world.double.instances()
    assert known.instance_id == spot
    times = [(moment - known.launched_at).total_seconds() for moment in (
        known.running_at, known.notice_at, known.reclaimed_at, known.ending_at, known.ended_at)]  # fmt: skip
    assert times == [10, 110, 160, 160, 180]


@pytest.mark.parametrize("word", ["spot_ratios", "capacities"])
def test_a_market_with_an_unknown_word_is_refused(word):
    with pytest.raises(ValueError, match=word):
        Market.of(**{word: 1})


def test_a_change_between_two_microseconds_comes_once(world_of):
    until_s = 45.240813382368
    world = world_of(capacity=[{"purchase": "spot", "zone": A, "from_s": until_s, "instances": 0}])
    instance = world.run_spot(A)
    world.clock.sleep(600)
    world.double.tick()
    assert world.shown(instance)["State"]["Name"] == "terminated"
