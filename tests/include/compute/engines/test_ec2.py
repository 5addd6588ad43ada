"""The EC2 engine against the double, on a clock that is moved by hand: launches, answers that are lost, ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from include.compute.ec2.launcher import PAUSES_S
from include.compute.engines.ec2 import Ec2Engine, LeaseLeftError
from include.core.clock import iso
from include.core.contracts.lease import JobPhase, JobTicket, LeaseState
from include.core.errors import GroupClosedError, LaunchRefusedError, NoCapacityError
from stack.ec2_double import FLEET_LAUNCH, Market
from tests.support.ec2_rig import LEASE, ON_DEMAND, REGION, SPOT, DoubleClients, Rig, candidate, in_zones


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(folder=tmp_path)


@pytest.fixture
def rig_with(tmp_path: Path) -> Callable[..., Rig]:
    return lambda **fields: Rig(folder=tmp_path, **fields)


NO_SPOT = Market.of(capacity=[{"purchase": "spot", "instances": 0}])
NOTHING = Market.of(capacity=[{"instances": 0}])


class TestLaunch:
    def test_the_best_candidate_is_launched_with_tags_and_a_script(self, rig: Rig):
        lease = rig.engine.launch(rig.request(owner="vision", cost_centre="cc-7"))
        (instance,) = rig.double.instances()
        assert (instance.instance_type, instance.purchase) == ("g5.xlarge", "spot")
        tags = {key.removeprefix("plimsoll:"): value for key, value in instance.tags.items()}
        expected = {"lease": LEASE, "group": "train-abc", "generation": "1", "dag": "digits", "run": "run-1"}
        assert tags.items() >= {**expected, "owner": "vision", "cost-centre": "cc-7", "launch": "1"}.items()
        assert float(tags["expires-at"]) == rig.clock.now().timestamp() + 3600
        assert instance.user_data.splitlines()[1] == "shutdown -h +30"
        assert lease.state is LeaseState.STARTING
        assert lease.details == {
            "instance_type": "g5.xlarge",
            "region": REGION,
            "zone": instance.zone,
            "purchase": "spot",
            "usd_per_h": "0.40",
            "list_usd_per_h": "1.006",
            "price_source": "test",
            "instance_ids": instance.instance_id,
        }

    def test_volumes_are_tagged_encrypted_and_go_with_their_instance(self, rig: Rig):
        rig.engine.launch(rig.request())
        (volume,) = rig.double.client("ec2").describe_volumes()["Volumes"]
        assert volume["Encrypted"]
        assert volume["Attachments"][0]["DeleteOnTermination"]
        assert {"Key": "plimsoll:lease", "Value": LEASE} in volume["Tags"]

    def test_launches_of_one_token_make_one_instance_whoever_makes_them(self, rig: Rig):
        for _ in range(3):
            rig.another_process().launch(rig.request())
        assert len(rig.double.instances()) == 1

    def test_spot_that_is_not_there_is_followed_by_the_next_candidate(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=NO_SPOT)
        lease = rig.engine.launch(rig.request())
        assert lease.details["purchase"] == "on-demand"
        assert lease.details["usd_per_h"] == "1.006"
        assert [each.purchase for each in rig.double.instances()] == ["on-demand"]

    def test_zones_are_tried_by_rank_in_one_call(self, rig_with: Callable[..., Rig]):
        market = Market.of(capacity=[{"zone": f"{REGION}{letter}", "instances": 0} for letter in "ab"])
        rig = rig_with(market=market)
        lease = rig.engine.launch(rig.request(LEASE, *in_zones(ON_DEMAND, "abc")))
        assert lease.details["zone"] == f"{REGION}c"
        assert rig.fleets() == 1

    def test_nothing_to_be_had_is_told_and_may_be_asked_again(self, rig_with: Callable[..., Rig]):
        market = Market.of(capacity=[{"instances": 0, "until_s": 600}])
        rig = rig_with(market=market)
        with pytest.raises(NoCapacityError, match="InsufficientInstanceCapacity") as caught:
            rig.engine.launch(rig.request())
        assert caught.value.retry_after_s > 0
        assert rig.double.instances() == ()
        assert rig.state() is LeaseState.STARTING
        rig.wait(600)
        rig.engine.launch(rig.request())
        assert len(rig.living()) == 1

    def test_a_later_launch_may_name_other_candidates_and_the_spec_says_which_hold(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=NO_SPOT)
        with pytest.raises(NoCapacityError):
            rig.engine.launch(rig.request(LEASE, SPOT))
        rig.engine.launch(rig.request(LEASE, ON_DEMAND))
        spec = rig.store.get_json(f"leases/{LEASE}/spec.json")
        assert [each["purchase"] for each in spec["candidates"]] == ["on-demand"]

    def test_a_stopped_lease_is_not_launched(self, rig: Rig):
        assert rig.engine.stop(LEASE, reason="early") == "never started"
        with pytest.raises(GroupClosedError):
            rig.engine.launch(rig.request())
        assert rig.fleets() == 0
        assert rig.state() is LeaseState.ENDED

    def test_candidates_of_other_regions_are_named(self, rig: Rig):
        with pytest.raises(LaunchRefusedError, match="not in us-east-1"):
            rig.engine.launch(rig.request(LEASE, replace(SPOT, region="eu-north-1")))

    def test_subnets_of_the_settings_hold(self, rig_with: Callable[..., Rig]):
        plain = rig_with()
        shown = plain.double.client("ec2").describe_subnets()["Subnets"]
        subnet = next(each for each in shown if each["AvailabilityZone"] == f"{REGION}b")["SubnetId"]
        rig = rig_with(settings_over={"ec2_subnets": (subnet,)})
        with pytest.raises(LaunchRefusedError, match="no subnet"):
            rig.engine.launch(rig.request(LEASE, *in_zones(SPOT, "a")))
        lease = rig.engine.launch(rig.request("train-abc-g2", *in_zones(SPOT, "ab")))
        assert lease.details["zone"] == f"{REGION}b"

    def test_more_scratch_space_makes_a_larger_volume(self, rig: Rig):
        rig.engine.launch(rig.request(storage_bytes=500 * 2**30))
        (volume,) = rig.double.client("ec2").describe_volumes()["Volumes"]
        assert volume["Size"] == 540
        assert volume["Encrypted"]


class TestLostAnswers:
    def test_a_lost_answer_is_asked_for_again_with_the_same_token(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, after=True)
        rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.log().last()[1].instances == (rig.double.instances()[0].instance_id,)

    def test_a_process_that_dies_after_the_call_leaves_it_to_the_next(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, after=True, times=None)
        rig.double.faults.add(action="DescribeInstances", code="InternalError", skip=3, times=None)
        with pytest.raises(NoCapacityError, match="no clear answer"):
            rig.engine.launch(rig.request())
        intent, answer = rig.log().last()
        assert intent is not None
        assert answer is None
        assert len(rig.living()) == 1
        rig.double.faults.clear()
        rig.another_process().launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.log().last()[0].number == 1

    def test_an_unreadable_answer_is_no_answer(self, rig: Rig):
        rig.double.faults.add(
            action="CreateFleet", match={"DryRun": ""}, after=True, status=500, raw="<html>", content_type="text/html"
        )
        rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1

    def test_a_lost_question_is_asked_again(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, lost=True)
        rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.clock.elapsed == PAUSES_S[0]

    def test_throttling_backs_off_and_leaves_nothing_behind(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, code="RequestLimitExceeded", times=2)
        rig.engine.launch(rig.request())
        assert rig.clock.elapsed == sum(PAUSES_S[:2])
        assert len(rig.double.instances()) == 1

    def test_endless_throttling_is_bounded(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, code="RequestLimitExceeded", times=None)
        with pytest.raises(NoCapacityError, match="RequestLimitExceeded"):
            rig.engine.launch(rig.request())
        assert rig.fleets() == len(PAUSES_S) + 1
        assert rig.log().last()[1].instances == (), "a throttled call has made nothing"
        began = rig.clock.elapsed
        rig.engine.stop(LEASE, reason="given up")
        assert rig.clock.elapsed == began

    def test_a_token_of_other_parameters_is_given_up_for_a_new_one(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, code="IdempotentParameterMismatch")
        rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.log().last()[0].number == 2

    def test_a_mismatch_whose_instance_is_there_adopts_it(self, rig: Rig):
        rig.double.faults.add(
            action="CreateFleet", match={"DryRun": ""}, after=True, code="IdempotentParameterMismatch"
        )
        rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.log().last()[0].number == 1

    def test_a_lost_log_is_made_up_for_by_tags(self, rig: Rig):
        rig.engine.launch(rig.request())
        for key in (f"leases/{LEASE}/launch/001.json", f"leases/{LEASE}/launch/001.answer.json"):
            rig.store.delete(key)
        rig.another_process().launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.log().last()[1].instances == (rig.double.instances()[0].instance_id,)

    def test_a_stop_while_a_launch_is_made_ends_what_it_brings(self, rig: Rig, monkeypatch: pytest.MonkeyPatch):
        real = rig.store.create_json

        def stop_meanwhile(key: str, value: Any) -> bool:
            if key.endswith("001.json"):
                # Between the last look at the mark and the call: the launcher sees it only afterwards.
                monkeypatch.setattr(type(rig.store), "exists", lambda _, __: False)
                real(f"leases/{LEASE}/stop.json", {"reason": "race"})
            if key.endswith("001.answer.json"):
                monkeypatch.undo()
            return real(key, value)

        monkeypatch.setattr(rig.store, "create_json", stop_meanwhile)
        with pytest.raises(GroupClosedError):
            rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.living() == []

    def test_two_processes_that_race_make_one_instance(self, rig: Rig, monkeypatch: pytest.MonkeyPatch):
        other = rig.another_process()
        real = rig.store.create_json
        raced = []

        def race(key: str, value: Any) -> bool:
            if key.endswith("launch/001.json") and not raced:
                raced.append(True)
                other.launch(rig.request(LEASE, ON_DEMAND))
            return real(key, value)

        monkeypatch.setattr(rig.store, "create_json", race)
        lease = rig.engine.launch(rig.request(LEASE, SPOT))
        assert [each.purchase for each in rig.double.instances()] == ["on-demand"]
        assert lease.details["purchase"] == "on-demand"

    def test_a_process_that_was_overtaken_ends_what_it_brings_too_late(self, rig: Rig):
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, code="InsufficientInstanceCapacity")
        overtaken: list[Overtaken] = []

        def slow(client: Any) -> Overtaken:
            overtaken[:] = overtaken or [Overtaken(client, lambda: other.launch(rig.request()))]
            return overtaken[0]

        other = rig.another_process()
        lease = rig.another_process(launching=slow).launch(rig.request())
        assert [each.tags["plimsoll:launch"] for each in rig.double.instances()] == ["2", "1"]
        assert [each.tags["plimsoll:launch"] for each in rig.living()] == ["2"]
        assert lease.details["instance_ids"] == rig.living()[0].instance_id
        assert rig.state() is LeaseState.STARTING

    def test_a_lease_that_cannot_be_looked_at_is_ended_again(self, rig: Rig):
        rig.double.faults.add(action="DescribeInstances", code="UnauthorizedOperation", skip=3, times=None)
        with pytest.raises(LaunchRefusedError, match="ended again"):
            rig.engine.launch(rig.request())
        assert len(rig.double.instances()) == 1
        assert rig.living() == []


class Overtaken:
    """A client whose process sleeps just before its first fleet, while another one does all the work."""

    def __init__(self, client: Any, meanwhile: Callable[[], object]) -> None:
        self._client = client
        self._meanwhile = [meanwhile]

    def create_fleet(self, **parameters: Any) -> Any:
        if not parameters.get("DryRun") and self._meanwhile:
            self._meanwhile.pop()()
        return self._client.create_fleet(**parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class TakesFewer:
    """A client whose fleets do without a minimum: EC2 then brings a part of what was asked for."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def create_fleet(self, **parameters: Any) -> Any:
        for options in ("SpotOptions", "OnDemandOptions"):
            if options in parameters:
                kept = {key: value for key, value in parameters[options].items() if key != "MinTargetCapacity"}
                parameters = {**parameters, options: kept}
        return self._client.create_fleet(**parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class TestGang:
    def test_nodes_are_of_one_type_in_one_zone(self, rig: Rig):
        rig.engine.launch(rig.request(LEASE, *in_zones(SPOT, "abc"), instances=4))
        assert len(rig.living()) == 4
        assert len({(each.instance_type, each.zone, each.purchase) for each in rig.living()}) == 1

    def test_too_little_capacity_brings_none(self, rig_with: Callable[..., Rig]):
        market = Market.of(capacity=[{"instances": 3}])
        rig = rig_with(market=market)
        with pytest.raises(NoCapacityError):
            rig.engine.launch(rig.request(LEASE, *in_zones(SPOT, "abc"), instances=4))
        assert rig.living() == []

    def test_a_part_of_the_nodes_is_ended_before_anything_else(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(capacity=[{"purchase": "spot", "instances": 3}]))
        rig.engine = rig.another_process(launching=TakesFewer)
        lease = rig.engine.launch(rig.request(LEASE, SPOT, ON_DEMAND, instances=4))
        assert lease.details["purchase"] == "on-demand"
        assert len(lease.details["instance_ids"].split(",")) == 4
        assert {each.purchase for each in rig.living()} == {"on-demand"}
        assert len(rig.living()) == 4
        assert len(rig.log().answer_of(1).discarded) == 3
        assert rig.state() is LeaseState.STARTING
        assert len(rig.engine.describe(LEASE).billed) == 7

    def test_a_part_that_ec2_does_not_know_yet_is_ended_as_soon_as_it_does(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(capacity=[{"purchase": "spot", "instances": 3}]), visible_after_s=3.0)
        rig.engine = rig.another_process(launching=TakesFewer)
        lease = rig.engine.launch(rig.request(LEASE, SPOT, ON_DEMAND, instances=4))
        assert {each.purchase for each in rig.living()} == {"on-demand"}
        assert lease.state is LeaseState.STARTING

    def test_a_lost_node_ends_the_lease_and_stop_ends_the_others(self, rig: Rig):
        rig.engine.launch(rig.request(LEASE, SPOT, instances=3))
        rig.boot()
        assert rig.state() is LeaseState.RUNNING
        rig.double.interrupt(rig.living()[0].instance_id, notice_s=0)
        rig.wait(1)
        assert rig.state() is LeaseState.ENDED
        assert rig.engine.stop(LEASE, reason="lost node") == "killed"
        assert rig.living() == []
        assert len(rig.engine.describe(LEASE).billed) == 3


class TestErrorsInsideASuccess:
    @pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidFleetConfiguration", "VolumeLimitExceeded"])
    def test_what_forbids_the_launch_stops_it_and_is_named(self, rig: Rig, code: str):
        rig.double.faults.add(action=FLEET_LAUNCH, code=code, message="because", times=None)
        with pytest.raises(LaunchRefusedError, match=f"{code} .because"):
            rig.engine.launch(rig.request())
        assert rig.fleets() == 1
        assert rig.double.instances() == ()

    def test_a_quota_of_spot_leaves_on_demand(self, rig: Rig):
        rig.double.faults.add(
            action=FLEET_LAUNCH, match={"Lifecycle": "spot"}, code="MaxSpotInstanceCountExceeded", times=None
        )
        other = candidate("g6.xlarge", "spot")
        lease = rig.engine.launch(rig.request(LEASE, SPOT, ON_DEMAND, other))
        assert lease.details["purchase"] == "on-demand"

    def test_a_family_over_its_quota_is_not_asked_for_again(self, rig: Rig):
        rig.double.faults.add(action=FLEET_LAUNCH, code="MaxSpotInstanceCountExceeded", times=None)
        same_family = candidate("g6.xlarge", "spot")
        with pytest.raises(LaunchRefusedError, match=r"quota.*MaxSpotInstanceCountExceeded"):
            rig.engine.launch(rig.request(LEASE, SPOT, replace(ON_DEMAND, instance_type="m7i.large"), same_family))
        assert rig.fleets() == 2

    def test_a_quota_and_no_capacity_elsewhere_may_be_waited_for(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(capacity=[{"purchase": "on-demand", "instances": 0}]))
        rig.double.faults.add(
            action=FLEET_LAUNCH, match={"Lifecycle": "spot"}, code="MaxSpotInstanceCountExceeded", times=None
        )
        with pytest.raises(NoCapacityError):
            rig.engine.launch(rig.request())

    def test_unknown_codes_are_tried_past_a_limited_number_of_times(self, rig: Rig):
        rig.double.faults.add(action=FLEET_LAUNCH, code="GremlinsInTheMachine", times=None)
        pair = (SPOT, ON_DEMAND)
        with pytest.raises(LaunchRefusedError, match="GremlinsInTheMachine"):
            rig.engine.launch(rig.request(LEASE, *pair, *pair, *pair, *pair))
        assert rig.fleets() == 3

    def test_a_type_that_is_offered_nowhere_is_no_matter_of_waiting(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(not_offered=[{"type": "g5.xlarge", "zone": "*"}]))
        with pytest.raises(LaunchRefusedError, match="Unsupported"):
            rig.engine.launch(rig.request())


class TestBeforeTheLaunch:
    @pytest.mark.parametrize(
        "forbidden",
        [
            {"TerminateInstances"},
            {"CreateFleet", "RunInstances"},
            {"CreateTags", "DescribeInstances"},
            {"DescribeVolumes"},
            {"DescribeLaunchTemplates", "DescribeSnapshots", "CreateFleet", "TerminateInstances", "RunInstances"},
        ],
    )
    def test_missing_permissions_are_all_named_and_nothing_runs(self, rig: Rig, forbidden: set[str]):
        rig.double.faults.forbidden |= forbidden
        with pytest.raises(LaunchRefusedError, match="permissions") as caught:
            rig.engine.launch(rig.request())
        assert all(f"ec2:{action}" in str(caught.value) for action in forbidden)
        assert rig.double.instances() == ()
        assert rig.log().last() == (None, None)

    def test_credentials_that_may_do_nothing_lack_everything_at_once(self, rig: Rig):
        rig.double.faults.forbidden |= {"*"}
        with pytest.raises(LaunchRefusedError, match="permissions") as caught:
            rig.engine.launch(rig.request())
        named = set(re.findall(r"ec2:(\w+)", str(caught.value)))
        assert {"DescribeInstances", "DescribeLaunchTemplates", "DescribeLaunchTemplateVersions"} <= named
        assert {"CreateFleet", "RunInstances", "CreateTags", "TerminateInstances"} <= named
        assert {"DescribeVolumes", "DescribeNetworkInterfaces", "DescribeAddresses", "DescribeFleets"} <= named

    def test_a_refused_launch_can_be_stopped_even_without_a_permission_to_look(self, rig: Rig):
        rig.double.faults.forbidden |= {"DescribeInstances"}
        with pytest.raises(LaunchRefusedError):
            rig.engine.launch(rig.request())
        assert rig.engine.stop(LEASE, reason="refused") == "never started"

    def test_a_quota_that_is_too_small_is_named_before_the_launch(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(quotas={"L-3819A6DF": 2, "L-DB2E81BA": 0}))
        with pytest.raises(LaunchRefusedError, match=r"G and VT Spot Instance Requests \(L-3819A6DF\): 4 vCPUs wanted"):
            rig.engine.launch(rig.request())
        assert rig.fleets() == 0

    def test_a_quota_that_others_use_up_is_waited_for(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(quotas={"L-3819A6DF": 4}))
        rig.engine.launch(rig.request(LEASE, SPOT))
        with pytest.raises(NoCapacityError, match="4 used of 4"):
            rig.engine.launch(rig.request("train-def-g1", SPOT))
        assert len(rig.living()) == 1

    def test_a_quota_that_cannot_be_learnt_is_not_checked(self, rig: Rig):
        rig.double.faults.add(action="GetServiceQuota", service="servicequotas", code="AccessDenied", times=None)
        rig.engine.launch(rig.request())
        assert len(rig.living()) == 1

    def test_an_api_that_does_not_answer_is_waited_for(self, rig: Rig):
        rig.double.faults.add(action="DescribeLaunchTemplates", code="Unavailable", times=None)
        with pytest.raises(NoCapacityError, match="DescribeLaunchTemplates"):
            rig.engine.launch(rig.request())

    def test_nothing_to_run_is_a_refusal(self, rig_with: Callable[..., Rig]):
        rig = rig_with(settings_over={"ec2_worker_image": ""})
        with pytest.raises(LaunchRefusedError, match="PLIMSOLL_EC2_WORKER_IMAGE"):
            rig.engine.launch(rig.request())

    def test_an_absent_template_without_an_image_is_a_clear_refusal(self, rig_with: Callable[..., Rig]):
        rig = rig_with(settings_over={"ec2_ami": ""})
        with pytest.raises(LaunchRefusedError, match="PLIMSOLL_EC2_AMI"):
            rig.engine.launch(rig.request())

    def test_a_template_that_would_leave_instances_behind_is_refused(self, rig: Rig):
        client = rig.double.client("ec2")
        client.create_launch_template(
            LaunchTemplateName="plimsoll-worker",
            LaunchTemplateData={"ImageId": rig.settings.ec2_ami, "InstanceMarketOptions": {"MarketType": "spot"}},
        )
        with pytest.raises(LaunchRefusedError, match=r"shut down worker would stay.*HttpTokens.*InstanceMarketOptions"):
            rig.engine.launch(rig.request())

    def test_the_template_is_made_once(self, rig: Rig):
        for number in range(1, 4):
            rig.another_process().launch(rig.request(f"train-x{number}-g1"))
        assert rig.calls("CreateLaunchTemplate") == 1
        (template,) = rig.double.client("ec2").describe_launch_template_versions(LaunchTemplateName="plimsoll-worker")[
            "LaunchTemplateVersions"
        ]
        data = template["LaunchTemplateData"]
        assert data["InstanceInitiatedShutdownBehavior"] == "terminate"
        assert data["MetadataOptions"] == {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 2,
        }
        assert data["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is False
        assert "KeyName" not in data
        assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


class TestStates:
    def test_from_launch_to_end(self, rig: Rig):
        rig.engine.launch(rig.request())
        assert rig.state() is LeaseState.STARTING
        rig.wait(25)
        assert rig.state() is LeaseState.STARTING
        rig.boot()
        assert rig.state() is LeaseState.RUNNING
        rig.double.interrupt(rig.living()[0].instance_id, notice_s=0)
        rig.wait(1)
        assert rig.state() is LeaseState.ENDED

    def test_an_agent_that_left_ends_its_lease_before_the_machine_is_down(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        rig.last_word("idle")
        assert rig.living()
        assert rig.state() is LeaseState.ENDED
        assert rig.engine.stop(LEASE, reason="x") == "idle"

    def test_an_instance_that_is_not_shown_yet_is_starting_for_a_bounded_time(self, rig_with: Callable[..., Rig]):
        rig = rig_with(visible_after_s=60.0)
        lease = rig.engine.launch(rig.request())
        assert lease.state is LeaseState.STARTING
        rig.wait(30)
        assert rig.state() is LeaseState.STARTING
        rig.wait(60)
        assert rig.state() is LeaseState.STARTING
        rig.boot()
        assert rig.state() is LeaseState.RUNNING

    def test_an_instance_that_never_appears_has_ended(self, rig_with: Callable[..., Rig]):
        rig = rig_with(visible_after_s=1e9)
        rig.engine.launch(rig.request())
        rig.wait(121)
        assert rig.state() is LeaseState.ENDED

    def test_an_instance_that_ec2_has_forgotten_has_ended(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        rig.double.interrupt(rig.living()[0].instance_id, notice_s=0)
        rig.wait(2 * 86_400)
        assert rig.state() is LeaseState.ENDED

    def test_no_answer_of_ec2_is_no_end(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        rig.double.faults.add(action="DescribeInstances", code="InternalError", times=None)
        with pytest.raises(Exception, match="InternalError"):
            rig.engine.describe(LEASE)
        with pytest.raises(Exception, match="InternalError"):
            rig.engine.find()

    def test_an_unknown_lease_is_starting(self, rig: Rig):
        lease = rig.engine.describe("train-never-g3")
        assert (lease.state, lease.group_id) == (LeaseState.STARTING, "train-never")

    def test_the_agents_extension_is_when_the_lease_ends(self, rig: Rig):
        rig.engine.launch(rig.request())
        until = rig.clock.now().timestamp() + 3600
        assert rig.engine.describe(LEASE).expires_at == until
        rig.store.put_json(f"leases/{LEASE}/heartbeat.json", {"state": "idle", "expires_at": until + 600.0})
        assert rig.engine.describe(LEASE).expires_at == until + 600

    def test_offers_come_from_the_catalog(self, rig: Rig):
        assert rig.engine.offers(None) == ()


class TestBilledTime:
    def test_from_launch_to_termination(self, rig: Rig):
        rig.engine.launch(rig.request())
        begun = rig.clock.now()
        rig.boot()
        rig.wait(600)
        rig.last_word("stopped")
        ended = rig.clock.now()
        rig.engine.stop(LEASE, reason="x")
        (billed,) = rig.engine.describe(LEASE).billed
        assert (billed.started_at, billed.ended_at, billed.usd_per_h) == (iso(begun), iso(ended), "0.40")

    def test_it_is_open_while_the_instance_runs(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        assert rig.engine.describe(LEASE).billed[0].ended_at is None

    def test_an_end_that_ec2_does_not_date_is_the_agents_last_word(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        rig.wait(100)
        rig.last_word("idle")
        left = rig.clock.now()
        rig.double.machines.exit(rig.living()[0].instance_id, at=left)
        rig.wait(40)
        assert rig.engine.describe(LEASE).billed[0].ended_at == iso(left)

    def test_without_a_last_word_it_is_the_first_look_and_stays_so(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        rig.wait(100)
        rig.double.machines.exit(rig.living()[0].instance_id, at=rig.clock.now())
        rig.wait(5)
        seen = rig.clock.now()
        assert rig.engine.describe(LEASE).billed[0].ended_at == iso(seen)
        rig.wait(50)
        assert rig.another_process().describe(LEASE).billed[0].ended_at == iso(seen)

    def test_a_price_is_that_of_the_zone(self, rig_with: Callable[..., Rig]):
        rig = rig_with(market=Market.of(capacity=[{"zone": f"{REGION}a", "instances": 0}]))
        dear = replace(SPOT, zone=f"{REGION}b", usd_per_h="0.50")
        rig.engine.launch(rig.request(LEASE, replace(SPOT, zone=f"{REGION}a"), dear, replace(SPOT, usd_per_h="0.60")))
        assert rig.engine.describe(LEASE).billed[0].usd_per_h == ("0.50" if rig.living()[0].zone[-1] == "b" else "0.60")


class TestEnd:
    def test_stop_terminates_and_is_idempotent(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        assert rig.engine.stop(LEASE, reason="test") == "killed"
        assert rig.living() == []
        assert rig.another_process().stop(LEASE, reason="again") == "lost"
        rig.wait(60)
        assert rig.double.counters["instances_ended"] == 1

    def test_a_pending_instance_is_ended_without_waiting_for_words(self, rig: Rig):
        rig.engine.launch(rig.request())
        began = rig.clock.elapsed
        assert rig.engine.stop(LEASE, reason="early") == "never started"
        assert rig.clock.elapsed - began < 3
        assert rig.living() == []

    def test_an_instance_that_is_not_shown_yet_is_ended_too(self, rig_with: Callable[..., Rig]):
        rig = rig_with(visible_after_s=15.0)
        rig.engine.launch(rig.request())
        rig.engine.stop(LEASE, reason="early")
        assert len(rig.double.instances()) == 1
        assert rig.living() == []

    def test_what_an_unanswered_call_made_is_ended_when_it_appears(self, rig_with: Callable[..., Rig]):
        rig = rig_with(visible_after_s=20.0)
        rig.double.faults.add(action="CreateFleet", match={"DryRun": ""}, after=True, times=None)
        with pytest.raises(NoCapacityError):
            rig.engine.launch(rig.request())
        assert len(rig.living()) == 1
        rig.engine.stop(LEASE, reason="gave up")
        assert rig.living() == []

    def test_a_lost_answer_of_the_end_is_looked_up(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.double.faults.add(action="TerminateInstances", after=True)
        rig.engine.stop(LEASE, reason="x")
        assert rig.living() == []

    def test_a_throttled_end_is_tried_again(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.double.faults.add(action="TerminateInstances", code="RequestLimitExceeded", times=3)
        rig.engine.stop(LEASE, reason="x")
        assert rig.living() == []

    def test_a_protected_instance_is_told(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.double.faults.add(action="TerminateInstances", code="OperationNotPermitted", times=None)
        with pytest.raises(LeaseLeftError, match=LEASE):
            rig.engine.stop(LEASE, reason="x")
        report = rig.engine.release("train-abc")
        assert report.left == (LEASE,)

    def test_release_ends_its_group_only(self, rig: Rig):
        for lease in ("train-abc-g1", "train-abc-g2", "work-abc-g1"):
            rig.engine.launch(rig.request(lease))
        assert {each.lease_id for each in rig.engine.find(group_id="train-abc")} == {"train-abc-g1", "train-abc-g2"}
        report = rig.engine.release("train-abc")
        assert set(report.ended) == {"train-abc-g1", "train-abc-g2"}
        assert report.left == ()
        assert [each.tags["plimsoll:lease"] for each in rig.living()] == ["work-abc-g1"]
        assert {each.lease_id: each.state for each in rig.engine.find()} == {
            "train-abc-g1": LeaseState.ENDED,
            "train-abc-g2": LeaseState.ENDED,
            "work-abc-g1": LeaseState.STARTING,
        }

    def test_another_installation_in_the_account_is_left_alone(self, rig: Rig, tmp_path: Path):
        other = Rig(folder=tmp_path / "other")
        other.double = rig.double
        other.clock = rig.clock
        other.engine = other.another_process()
        rig.engine.launch(rig.request())
        other.engine.launch(other.request())
        assert len(rig.double.instances()) == 2
        assert (
            other.engine.find(group_id="train-abc")[0].details["instance_ids"] == rig.double.instances()[1].instance_id
        )
        other.engine.release("train-abc")
        assert len(rig.living()) == 1
        assert rig.state() is LeaseState.STARTING

    def test_all_are_stopped_also_those_whose_agent_has_left(self, rig: Rig):
        for lease in ("train-abc-g1", "work-abc-g1"):
            rig.engine.launch(rig.request(lease))
        rig.boot("train-abc-g1")
        rig.last_word("idle", "train-abc-g1")
        report = rig.engine.stop_all(reason="off")
        assert set(report.ended) == {"train-abc-g1", "work-abc-g1"}
        assert rig.living() == []
        assert rig.engine.stop_all(reason="off").ended == {}

    def test_a_lease_of_the_past_is_found_without_asking_much(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.engine.stop(LEASE, reason="x")
        rig.wait(2 * 86_400)
        before = rig.calls("DescribeInstances")
        (lease,) = rig.engine.find()
        assert (lease.state, lease.run_id) == (LeaseState.ENDED, "run-1")
        assert rig.calls("DescribeInstances") == before + 1

    def test_instances_whose_documents_are_lost_are_found_and_ended(self, rig: Rig):
        rig.engine.launch(rig.request())
        for key, _ in list(rig.store.list(f"leases/{LEASE}")):
            rig.store.delete(key)
        (lease,) = rig.engine.find()
        assert (lease.lease_id, lease.run_id, lease.dag_id) == (LEASE, "run-1", "digits")
        assert rig.engine.release("train-abc").left == ()
        assert rig.living() == []

    def test_a_job_on_an_ended_lease_is_lost(self, rig: Rig):
        rig.engine.launch(rig.request())
        rig.boot()
        base = "runs/digits/run-1/jobs/train-1"
        ticket = JobTicket(name="t", kind="train", base=base, request_uri=rig.store.uri(f"{base}/request.json"))
        rig.engine.submit(LEASE, ticket, {"a": 1})
        assert rig.engine.poll(LEASE, base).phase is JobPhase.QUEUED
        rig.engine.stop(LEASE, reason="x")
        assert rig.engine.poll(LEASE, base).phase is JobPhase.LOST


def test_the_end_of_what_ec2_does_not_show_is_waited_for_as_long_as_the_caller_says(tmp_path: Path):
    rig = Rig(folder=tmp_path, visible_after_s=500.0)
    rig.engine.launch(rig.request())
    hasty = Ec2Engine(
        rig.store, rig.settings, DoubleClients(rig.double), clock=rig.clock, stop_grace_s=3.0, ended_within_s=3.0
    )
    began = rig.clock.monotonic()
    hasty.stop(LEASE, reason="cancelled")
    assert rig.clock.monotonic() - began <= 7
