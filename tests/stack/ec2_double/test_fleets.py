import pytest

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"


def launched(answer):
    """``(type, zone, number)`` of what a fleet launched."""
    shown = [(group["InstanceType"], group["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"],
              len(group["InstanceIds"])) for group in answer["Instances"]]  # fmt: skip
    return sorted(shown)


def codes(answer):
    """Error code by type and zone."""
    return {
        (error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"],
         error["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"]): error["ErrorCode"]
        for error in answer["Errors"]
    }  # fmt: skip


def ranked(*pools):
    return [
        {"InstanceType": kind, "AvailabilityZone": zone, "Priority": float(rank)}
        for rank, (kind, zone) in enumerate(pools)
    ]


@pytest.mark.parametrize("strategy", ["capacity-optimized-prioritized"])
def test_spot_takes_the_first_priority_that_has_room(world_of, strategy):
    world = world_of(capacity=[{"type": "g5.xlarge", "zone": A, "instances": 0}])
    pools = ranked(("g5.xlarge", A), ("g6e.xlarge", B), ("g4dn.xlarge", C))
    answer = world.fleet(*pools, options={"AllocationStrategy": strategy})
    assert launched(answer) == [("g6e.xlarge", B, 1)]
    assert codes(answer) == {("g5.xlarge", A): "InsufficientInstanceCapacity"}
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_prioritized_on_demand_follows_priority_and_lowest_price_the_price(world):
    pools = ranked(("g6e.xlarge", A), ("g4dn.xlarge", A))
    prioritized = world.fleet(*pools, purchase="on-demand", options={"AllocationStrategy": "prioritized"})
    assert launched(prioritized) == [("g6e.xlarge", A, 1)]
    cheapest = world.fleet(*pools, purchase="on-demand", token="u")
    assert launched(cheapest) == [("g4dn.xlarge", A, 1)]
    assert cheapest["Instances"][0]["Lifecycle"] == "on-demand"


def test_capacity_optimized_takes_the_deepest_pool_and_diversified_spreads(world_of):
    world = world_of(capacity=[{"zone": A, "instances": 2}, {"zone": B, "instances": 5}, {"zone": C, "instances": 1}])
    pools = [("g5.xlarge", A), ("g5.xlarge", B), ("g5.xlarge", C)]
    deep = world.fleet(*pools, count=2, options={"AllocationStrategy": "capacity-optimized"})
    assert launched(deep) == [("g5.xlarge", B, 2)]
    spread = world.fleet(*pools, count=5, token="u", options={"AllocationStrategy": "diversified"})
    assert launched(spread) == [("g5.xlarge", A, 2), ("g5.xlarge", B, 2), ("g5.xlarge", C, 1)]


def test_a_part_of_the_target_is_launched_where_no_minimum_is_asked(world_of):
    world = world_of(capacity=[{"zone": A, "instances": 2}])
    answer = world.fleet(("g5.xlarge", A), count=3)
    assert launched(answer) == [("g5.xlarge", A, 2)]
    assert codes(answer) == {("g5.xlarge", A): "InsufficientInstanceCapacity"}


def test_a_minimum_is_all_or_nothing_in_one_type_and_zone(world_of):
    world = world_of(capacity=[{"zone": A, "instances": 3}, {"zone": B, "instances": 3}])
    whole = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": 4,
             "AllocationStrategy": "capacity-optimized-prioritized"}  # fmt: skip
    pools = ranked(("g5.xlarge", A), ("g5.xlarge", B))
    answer = world.fleet(*pools, count=4, options=whole)
    assert answer["Instances"] == []
    assert set(codes(answer).values()) == {"InsufficientInstanceCapacity"}
    assert world.double.instances() == ()
    three = world.fleet(*pools, count=3, token="u", options={**whole, "MinTargetCapacity": 3})
    assert launched(three) == [("g5.xlarge", A, 3)]


def test_one_zone_is_chosen_that_has_it_all(world_of):
    world = world_of(capacity=[{"zone": A, "instances": 1}, {"zone": B, "instances": 4}])
    whole = {"SingleInstanceType": True, "SingleAvailabilityZone": True, "MinTargetCapacity": 2}
    answer = world.fleet(("g5.xlarge", A), ("g5.xlarge", B), count=2, options=whole)
    assert launched(answer) == [("g5.xlarge", B, 2)]


def test_a_minimum_without_a_single_flag_is_refused(world):
    pools = {"options": {"MinTargetCapacity": 1}}
    with pytest.raises(Exception, match="InvalidParameterCombination"):
        world.fleet(("g5.xlarge", A), **pools)


def test_an_override_without_a_zone_may_go_anywhere(world_of):
    world = world_of(capacity=[{"instances": 0}, {"zone": C, "instances": 1}])
    assert launched(world.fleet({"InstanceType": "g5.xlarge"})) == [("g5.xlarge", C, 1)]


def test_a_subnet_places_an_instance(world):
    (subnet,) = world.ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": [B]}])["Subnets"]
    answer = world.fleet({"InstanceType": "g5.xlarge", "SubnetId": subnet["SubnetId"]})
    shown = world.shown(answer["Instances"][0]["InstanceIds"][0])
    assert (shown["Placement"]["AvailabilityZone"], shown["SubnetId"]) == (B, subnet["SubnetId"])


def test_every_kind_of_refusal_is_told_inside_the_answer(world_of):
    world = world_of(
        capacity=[{"type": "g4dn.*", "instances": 0}],
        not_offered=[{"type": "g6.xlarge", "zone": A}],
        quotas={"L-7212CCBC": 10},
    )
    answer = world.fleet(
        ("g4dn.xlarge", A),
        ("g6.xlarge", A),
        ("p4d.24xlarge", A),
        ("g99.xlarge", A),
        {"InstanceType": "g5.xlarge", "AvailabilityZone": A, "MaxPrice": "0.01"},
    )
    assert answer["Instances"] == []
    assert codes(answer) == {
        ("g4dn.xlarge", A): "InsufficientInstanceCapacity",
        ("g6.xlarge", A): "Unsupported",
        ("p4d.24xlarge", A): "MaxSpotInstanceCountExceeded",
        ("g99.xlarge", A): "InvalidParameterValue",
        ("g5.xlarge", A): "SpotMaxPriceTooLow",
    }


def test_errors_can_be_put_inside_the_answer_by_type_and_zone(world):
    world.double.faults.add(
        action="CreateFleet.Launch", match={"InstanceType": "g5.*", "AvailabilityZone": A}, code="InternalError"
    )
    answer = world.fleet(*ranked(("g5.xlarge", A), ("g5.xlarge", B)))
    assert (launched(answer), codes(answer)) == ([("g5.xlarge", B, 1)], {("g5.xlarge", A): "InternalError"})
    world.double.faults.forbidden.add("RunInstances")
    assert codes(world.fleet(("g5.xlarge", A), token="u")) == {("g5.xlarge", A): "UnauthorizedOperation"}


def test_user_data_image_and_tags_of_a_fleet_reach_its_instances(world):
    world.template(TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "template"}]}])
    answer = world.ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {
                    "LaunchTemplateName": "worker",
                    "Version": "1",
                    "LaunchTemplateSpecificationUserData": "IyEvYmluL2Jhc2gK",
                },
                "Overrides": [{"InstanceType": "g5.xlarge", "ImageId": "ami-87654321", "AvailabilityZone": A}],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
        TagSpecifications=[
            {"ResourceType": kind, "Tags": [{"Key": "kind", "Value": kind}]} for kind in ("fleet", "instance", "volume")
        ],
    )
    (instance,) = world.double.instances()
    assert instance.user_data == "#!/bin/bash\n"
    shown = world.shown(instance.instance_id)
    assert shown["ImageId"] == "ami-87654321"
    tags = {tag["Key"]: tag["Value"] for tag in shown["Tags"]}
    assert (tags["a"], tags["kind"], tags["aws:ec2:fleet-id"]) == ("template", "instance", answer["FleetId"])
    (volume,) = world.ec2.describe_volumes(Filters=[{"Name": "tag:kind", "Values": ["volume"]}])["Volumes"]
    assert volume["Attachments"][0]["InstanceId"] == instance.instance_id
    (fleet,) = world.ec2.describe_fleets(FleetIds=[answer["FleetId"]])["Fleets"]
    assert (fleet["Type"], {tag["Key"]: tag["Value"] for tag in fleet["Tags"]}) == ("instant", {"kind": "fleet"})


def test_instant_fleets_are_shown_by_id_alone_and_go_with_their_instances(world):
    fleet_id = world.fleet(("g5.xlarge", A))["FleetId"]
    assert world.ec2.describe_fleets()["Fleets"] == []
    kept = world.ec2.delete_fleets(FleetIds=[fleet_id], TerminateInstances=False)
    assert len(kept["UnsuccessfulFleetDeletions"]) == 1
    gone = world.ec2.delete_fleets(FleetIds=[fleet_id, "fleet-00000000000000000"], TerminateInstances=True)
    assert [each["FleetId"] for each in gone["SuccessfulFleetDeletions"]] == [fleet_id]
    assert len(gone["UnsuccessfulFleetDeletions"]) == 1
    world.clock.sleep(30)
    assert [each.state.value for each in world.double.instances()] == ["terminated"]


def test_other_types_of_fleets_and_weights_are_refused(world):
    world.template()
    with pytest.raises(Exception, match="UnsupportedOperation"):
        world.fleet(("g5.xlarge", A), Type="maintain")
    with pytest.raises(Exception, match="UnsupportedOperation"):
        world.fleet({"InstanceType": "g5.xlarge", "WeightedCapacity": 2.0})


def test_a_fleet_may_want_both_purchase_options(world):
    target = {"TotalTargetCapacity": 3, "OnDemandTargetCapacity": 1, "DefaultTargetCapacityType": "spot"}
    answer = world.fleet(("g5.xlarge", A), TargetCapacitySpecification=target)
    numbers = {group["Lifecycle"]: len(group["InstanceIds"]) for group in answer["Instances"]}
    assert numbers == {"on-demand": 1, "spot": 2}
