"""What the market offers as EC2 and the Pricing service tell it: offerings, spot prices, placement scores, products."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stack.ec2_double import network
from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, select
from stack.ec2_double.errors import AwsError
from stack.ec2_double.market import catalog_types
from stack.ec2_double.quotas import vcpus_left

_PRODUCT = "Linux/UNIX"
_BEST_SCORE = 10
_SCORE_OF_FEW = 3


def _types(account: Account) -> list[str]:
    return sorted({*catalog_types(), *account.market.rules.types})


def describe_instance_type_offerings(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeInstanceTypeOfferings by region, zone or zone id."""
    where = parameters.get("LocationType", "region")
    market = account.market
    places: dict[str, list[tuple[str, tuple[str, ...]]]] = {
        "region": [(region, market.zones(region))],
        "availability-zone": [(zone, (zone,)) for zone in market.zones(region)],
        "availability-zone-id": [(network.zone_id(account, zone), (zone,)) for zone in market.zones(region)],
    }
    if where not in places:
        raise AwsError("InvalidParameterValue", f"Invalid value '{where}' for LocationType.")
    every = [
        {"InstanceType": kind, "LocationType": where, "Location": place}
        for kind in _types(account)
        for place, zones in places[where]
        if any(market.offers(kind, zone) for zone in zones)
    ]
    readers = {"instance-type": lambda entry: entry["InstanceType"], "location": lambda entry: entry["Location"]}
    chosen = select(every, parameters.get("Filters"), readers=readers, tags=lambda _: {})
    shown, token = page(chosen, parameters)
    return {"InstanceTypeOfferings": shown, "NextToken": token}


def describe_spot_price_history(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeSpotPriceHistory: the price that is in effect now, per type and zone."""
    now = account.clock.now()
    wanted = parameters.get("InstanceTypes") or _types(account)
    zones = [z for z in account.market.zones(region) if z == (parameters.get("AvailabilityZone") or z)]
    asked = parameters.get("ProductDescriptions") or [_PRODUCT]
    every = [
        {
            "InstanceType": kind,
            "AvailabilityZone": zone,
            "ProductDescription": _PRODUCT,
            "SpotPrice": f"{usd:.6f}",
            "Timestamp": min(now, account.opened_at),
        }
        for kind in wanted
        for zone in zones
        if _PRODUCT in asked and account.market.offers(kind, zone) and account.market.sells(kind, "spot")
        if (usd := _spot_usd(account, kind, zone)) is not None
    ]
    readers = {
        "instance-type": lambda entry: entry["InstanceType"],
        "availability-zone": lambda entry: entry["AvailabilityZone"],
        "product-description": lambda entry: entry["ProductDescription"],
    }
    chosen = select(every, parameters.get("Filters"), readers=readers, tags=lambda _: {})
    shown, token = page(chosen, parameters)
    return {"SpotPriceHistory": shown, "NextToken": token or ""}


def _spot_usd(account: Account, kind: str, zone: str) -> Any:  # noqa: ANN401 - a Decimal or None
    at_s = account.at_s(account.clock.now())
    return account.market.usd_per_h(instance_type=kind, purchase="spot", zone=zone, at_s=at_s)


def get_spot_placement_scores(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """GetSpotPlacementScores: 10 where the target fits now, 3 where some of it does, 1 where none does."""
    target = int(parameters["TargetCapacity"])
    regions = parameters.get("RegionNames") or [region]
    kinds = parameters.get("InstanceTypes") or []
    single = bool(parameters.get("SingleAvailabilityZone"))
    scores = []
    for each in regions:
        free = {zone: _free(account, kinds, zone) for zone in account.market.zones(each)}
        if single:
            scores += [
                {"Region": each, "AvailabilityZoneId": network.zone_id(account, zone), "Score": _score(n, target)}
                for zone, n in free.items()
            ]
        else:
            scores.append({"Region": each, "Score": _score(sum(free.values()), target)})
    shown, token = page(sorted(scores, key=lambda score: -score["Score"]), parameters)
    return {"SpotPlacementScores": shown, "NextToken": token}


def _free(account: Account, kinds: list[str], zone: str) -> float:
    at_s = account.at_s(account.clock.now())
    free = 0.0
    for kind in kinds:
        if not account.market.offers(kind, zone):
            continue
        most = account.market.capacity(instance_type=kind, purchase="spot", zone=zone, at_s=at_s)
        left = vcpus_left(account, instance_type=kind, purchase="spot", region=zone[:-1])
        room = most - len(account.occupied(instance_type=kind, purchase="spot", zone=zone))
        free += room if left is None else min(room, left // account.market.vcpus(kind))
    return free


def _score(free: float, target: int) -> int:
    return _BEST_SCORE if free >= target else _SCORE_OF_FEW if free > 0 else 1


def answer_pricing(account: Account, action: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """GetProducts of service AmazonEC2: on-demand Linux prices of the catalog and of the market's rules.

    Raises:
        AwsError: Another action or service.
    """
    if action != "GetProducts" or document.get("ServiceCode") != "AmazonEC2":
        raise AwsError("InvalidParameterException", "the double has GetProducts of AmazonEC2 only")
    wanted = {entry["Field"]: entry["Value"] for entry in document.get("Filters") or ()}
    chosen = [product for product in _products(account) if _fits(product, wanted)]
    shown, token = page(chosen, document)
    return {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(product) for product in shown],
        **({"NextToken": token} if token else {}),
    }


def _fits(product: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    attributes = product["product"]["attributes"]
    return all(attributes.get(field) == value for field, value in wanted.items())


def _products(account: Account) -> Iterator[dict[str, Any]]:
    at_s = account.at_s(account.clock.now())
    for kind in _types(account):
        entry = catalog_types().get(kind)
        for region in entry.regions if entry else ():
            zone = account.market.zones(region)[0]
            usd = account.market.usd_per_h(instance_type=kind, purchase="on-demand", zone=zone, at_s=at_s)
            if usd is not None:
                yield _product(kind, region, str(usd))


def _product(kind: str, region: str, usd: str) -> dict[str, Any]:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": usd}}
    attributes = {
        "instanceType": kind,
        "regionCode": region,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "licenseModel": "No License required",
        "marketoption": "OnDemand",
    }
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{kind}.OD": {"priceDimensions": {f"{kind}.OD.H": dimension}}}},
    }
