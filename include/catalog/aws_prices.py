"""Prices from answers of AWS: DescribeSpotPriceHistory and GetProducts of the Pricing service. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from include.catalog.refreshed_file import Quote

# What Linux is called in VPCs, and in accounts older than those.
SPOT_PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
# Spot prices move about once a day; one that has not for a month is no price of today.
_LONGEST_UNCHANGED_DAYS = 30
# A spot price lies far below the on-demand price, but not so far; above it only by mistake of an order.
_SPOT_OF_LISTED = (Decimal("0.02"), Decimal("1.5"))
# List prices of AWS have been cut by half at the most.
_LISTED_OF_BEFORE = (Decimal("0.2"), Decimal(5))
_SPOT_SOURCE = "EC2 DescribeSpotPriceHistory"
_LIST_SOURCE = "AWS Pricing GetProducts, on-demand Linux with shared tenancy"

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotes:
    """Prices that can be used, and why others cannot.

    Attributes:
        usable: The prices.
        refused: One sentence per price that was left out.
    """

    usable: tuple[Quote, ...]
    refused: tuple[str, ...]


def parse_spot(
    history: Iterable[Mapping[str, Any]],
    *,
    region: str,
    types: Collection[str],
    on_demand: Mapping[Key, Decimal],
    now: datetime,
) -> Quotes:
    """The newest spot price of each type and zone.

    Args:
        history: ``SpotPriceHistory`` from now on, which holds the prices that are in effect.
        region: The region that was asked.
        types: Types of the catalog; prices of others are left alone.
        on_demand: On-demand prices by type and region, to compare with.
        now: Time of the question.
    """
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for item in history:
        if item.get("ProductDescription") not in SPOT_PRODUCTS or item["InstanceType"] not in types:
            continue
        place = (str(item["InstanceType"]), str(item["AvailabilityZone"]))
        if place not in newest or item["Timestamp"] > newest[place]["Timestamp"]:
            newest[place] = item
    usable, refused = [], []
    for (name, zone), item in sorted(newest.items()):
        reason = _spot_refusal(item, listed=on_demand.get((name, region)), now=now)
        if reason:
            refused.append(f"spot {name} in {zone}: {reason}")
            continue
        usable.append(_quote(name, region=region, zone=zone, purchase="spot", usd=_usd(item["SpotPrice"]), now=now))
    return Quotes(usable=tuple(usable), refused=tuple(refused))


def _spot_refusal(item: Mapping[str, Any], *, listed: Decimal | None, now: datetime) -> str | None:
    usd = _usd(item["SpotPrice"])
    if usd is None:
        return f"price {item['SpotPrice']!r} is not positive"
    age = (now - item["Timestamp"]).days
    if age > _LONGEST_UNCHANGED_DAYS:
        return f"price {usd} has not changed for {age} days"
    if listed is not None and not _SPOT_OF_LISTED[0] <= usd / listed <= _SPOT_OF_LISTED[1]:
        return f"price {usd} is implausible beside {listed} on demand"
    return None


def parse_products(
    price_list: Iterable[str],
    *,
    region: str,
    types: Collection[str],
    before: Mapping[Key, Decimal],
    now: datetime,
) -> Quotes:
    """The on-demand price of each type.

    Args:
        price_list: ``PriceList`` of GetProducts, each a JSON text.
        region: The region that was asked.
        types: Types of the catalog; prices of others are left alone.
        before: Prices of the last good list by type and region, to compare with.
        now: Time of the question.
    """
    found: dict[str, set[Decimal]] = {}
    refused = []
    for text in price_list:
        product = json.loads(text)
        name = str(product.get("product", {}).get("attributes", {}).get("instanceType", ""))
        if name not in types:
            continue
        prices = list(_hourly_usd(product))
        found.setdefault(name, set()).update(price for price in prices if price is not None)
        refused += [f"on-demand {name} in {region}: no positive price" for price in prices if price is None]
    usable = []
    for name, prices_found in sorted(found.items()):
        reason = _listed_refusal(prices_found, before=before.get((name, region)))
        if reason:
            refused.append(f"on-demand {name} in {region}: {reason}")
            continue
        usable.append(_quote(name, region=region, zone=None, purchase="on-demand", usd=min(prices_found), now=now))
    return Quotes(usable=tuple(usable), refused=tuple(refused))


def _hourly_usd(product: Mapping[str, Any]) -> Iterable[Decimal | None]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            if dimension.get("unit") == "Hrs":
                yield _usd(dimension.get("pricePerUnit", {}).get("USD"))


def _listed_refusal(prices: set[Decimal], *, before: Decimal | None) -> str | None:
    if not prices:
        return "no price by the hour"
    if len(prices) > 1:
        return f"several prices: {', '.join(map(str, sorted(prices)))}"
    (usd,) = prices
    if before is not None and not _LISTED_OF_BEFORE[0] <= usd / before <= _LISTED_OF_BEFORE[1]:
        return f"price {usd} is implausible beside {before} before"
    return None


def _usd(text: Any) -> Decimal | None:  # noqa: ANN401 - raw answer
    """A positive price without trailing zeros and exponent, None for anything else."""
    try:
        usd = Decimal(str(text))
    except InvalidOperation:
        return None
    return Decimal(format(usd.normalize(), "f")) if usd.is_finite() and usd > 0 else None


def _quote(name: str, *, region: str, zone: str | None, purchase: str, usd: Decimal | None, now: datetime) -> Quote:
    assert usd is not None
    return Quote.model_validate(
        {
            "type": name,
            "region": region,
            "zone": zone,
            "purchase": purchase,
            "usd_per_h": str(usd),
            "as_of": now.date(),
            "source": _SPOT_SOURCE if zone else _LIST_SOURCE,
        }
    )
