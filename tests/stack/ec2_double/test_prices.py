import json
from datetime import UTC, datetime
from decimal import Decimal

from include.catalog.refresh import refresh_catalog
from include.catalog.refreshed_file import read_refreshed

REGION = "us-east-1"


def test_spot_prices_are_a_stated_share_of_the_catalogs_price(world_of):
    world = world_of(spot_ratio="0.25", prices=[{"type": "g5.xlarge", "zone": "us-east-1b", "usd_per_h": "0.9"}])
    history = world.ec2.describe_spot_price_history(
        InstanceTypes=["g5.xlarge"], ProductDescriptions=["Linux/UNIX"], StartTime=world.clock.now()
    )["SpotPriceHistory"]
    prices = {each["AvailabilityZone"]: Decimal(each["SpotPrice"]) for each in history}
    assert prices["us-east-1a"] == Decimal("1.006") / 4
    assert prices["us-east-1b"] == Decimal("0.9")
    assert len(prices) == 6


def test_prices_may_move(world_of):
    world = world_of(prices=[{"usd_per_h": "0.5"}, {"from_s": 60, "usd_per_h": "0.7"}])
    early = world.run_spot()
    world.clock.sleep(60)
    late = world.run_spot()
    paid = {line.instance_id: line.usd_per_h for line in world.double.bill()}
    assert paid == {early: Decimal("0.5"), late: Decimal("0.7")}


def test_products_have_the_catalogs_on_demand_price(world):
    pricing = world.double.client("pricing")
    wanted = {"instanceType": "g5.xlarge", "regionCode": REGION, "operatingSystem": "Linux", "tenancy": "Shared"}
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
    (text,) = pricing.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    (term,) = json.loads(text)["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert dimension == {"unit": "Hrs", "pricePerUnit": {"USD": "1.006"}}


def test_a_refresh_of_the_catalog_works_against_the_double(world, file_store):
    class Clients:
        def ec2(self, region):
            return world.double.client(region=region)

        def pricing(self):
            return world.double.client("pricing")

    now = datetime(2026, 1, 1, tzinfo=UTC)
    report = refresh_catalog(store=file_store, clients=Clients(), regions=(REGION,), now=now)
    assert report.types > 50
    assert report.refused == 0
    assert report.spot_prices > report.on_demand_prices > 30
    refreshed, _ = read_refreshed(file_store)
    spot = {q.zone: q.usd_per_h for q in refreshed.quotes if (q.type, q.purchase) == ("g6.xlarge", "spot")}
    assert spot["us-east-1a"] == "0.2817"


def test_offerings_name_zones_that_have_a_type(world_of):
    world = world_of(not_offered=[{"type": "p5.*", "zone": "us-east-1[ab]"}])

    def places(where):
        answer = world.ec2.describe_instance_type_offerings(
            LocationType=where, Filters=[{"Name": "instance-type", "Values": ["p5.48xlarge"]}]
        )
        return [each["Location"] for each in answer["InstanceTypeOfferings"]]

    assert places("region") == [REGION]
    assert places("availability-zone") == [f"us-east-1{letter}" for letter in "cdef"]
    assert places("availability-zone-id") == [f"use1-az{number}" for number in (3, 4, 5, 6)]
    asked = {"ImageId": "ami-12345678", "InstanceType": "p5.48xlarge", "MinCount": 1, "MaxCount": 1}
    placed = {"Placement": {"AvailabilityZone": "us-east-1a"}}
    assert world.refusal(world.ec2.run_instances, **asked, **placed) == ("Unsupported", 400)


def test_types_are_described_with_their_accelerators(world_of):
    world = world_of(types={"toy.large": 2}, not_offered=[{"type": "p5.48xlarge", "zone": "*"}])
    wanted = ["g5.xlarge", "toy.large"]
    gpu, own = world.ec2.describe_instance_types(InstanceTypes=wanted)["InstanceTypes"]
    assert (gpu["VCpuInfo"]["DefaultVCpus"], gpu["GpuInfo"]["Gpus"][0]["Name"]) == (4, "A10G")
    assert own["VCpuInfo"]["DefaultVCpus"] == 2
    pages = world.ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 40})
    listed = [each["InstanceType"] for page in pages for each in page["InstanceTypes"]]
    assert len(listed) == len(set(listed)) > 80
    for unknown in ("g99.xlarge", "p5.48xlarge"):
        asked = {"InstanceTypes": [unknown]}
        assert world.refusal(world.ec2.describe_instance_types, **asked) == ("InvalidInstanceType", 400)


def test_placement_scores_follow_capacity(world_of):
    world = world_of(capacity=[{"instances": 0}, {"zone": "us-east-1b", "instances": 2}])

    def scores(target, *, single):
        answer = world.ec2.get_spot_placement_scores(
            InstanceTypes=["g5.xlarge"], TargetCapacity=target, SingleAvailabilityZone=single, RegionNames=[REGION]
        )
        return {each.get("AvailabilityZoneId", each["Region"]): each["Score"] for each in answer["SpotPlacementScores"]}

    assert scores(2, single=False) == {REGION: 10}
    assert scores(3, single=False) == {REGION: 3}
    assert scores(2, single=True)["use1-az2"] == 10
    assert scores(2, single=True)["use1-az1"] == 1


def test_quotas_are_told_as_the_market_has_them(world_of):
    world = world_of(quotas={"L-DB2E81BA": 96})
    quotas = world.double.client("service-quotas")
    quota = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]
    assert (quota["Value"], quota["QuotaName"]) == (96.0, "Running On-Demand G and VT instances")
    listed = {each["QuotaCode"]: each["Value"] for each in quotas.list_service_quotas(ServiceCode="ec2")["Quotas"]}
    assert listed["L-DB2E81BA"] == 96.0
    assert listed["L-3819A6DF"] > 0
    unknown = {"ServiceCode": "ec2", "QuotaCode": "L-00000000"}
    assert world.refusal(quotas.get_service_quota, **unknown)[0] == "NoSuchResourceException"
