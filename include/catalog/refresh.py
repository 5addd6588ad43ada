"""A new catalog from the vendor: asked step by step, written only when all of it makes sense."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from pydantic import ValidationError

from include.catalog.aws_prices import SPOT_PRODUCTS, Key, Quotes, parse_products, parse_spot
from include.catalog.aws_types import parse_types, wanted_types
from include.catalog.catalog_file import Chip, InstanceType, Sourced
from include.catalog.loader import load_catalog, load_chips
from include.catalog.refreshed_file import Refreshed, read_refreshed, write_refreshed
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.errors import CatalogRefreshError
from include.core.store import ObjectStore

# DescribeInstanceTypes takes as many names at once.
_TYPES_PER_CALL = 100
# More refused prices than this share smell of a wrong answer, not of single mistakes.
_REFUSED_AT_MOST = 0.2
_SHOWN = 5


class AwsClients(Protocol):
    """Clients of the vendor, made where boto3 is."""

    def ec2(self, region: str) -> Any:  # noqa: ANN401 - boto3 has no types
        """Client of EC2 in a region."""
        ...

    def pricing(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """Client of the Pricing service, which has endpoints in few regions."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshReport:
    """What a refresh found.

    Attributes:
        regions: Regions that were asked.
        types: Instance types.
        on_demand_prices: On-demand prices.
        spot_prices: Spot prices, one per type and zone.
        new_accelerators: Accelerators that the bundled list does not know; nothing but their memory is known.
        refused: Number of prices that were left out.
        refused_examples: A few of them, with the reason.
    """

    regions: tuple[str, ...]
    types: int
    on_demand_prices: int
    spot_prices: int
    new_accelerators: tuple[str, ...]
    refused: int
    refused_examples: tuple[str, ...]


def refresh_catalog(
    *, store: ObjectStore, clients: AwsClients, regions: tuple[str, ...], now: datetime
) -> RefreshReport:
    """Ask for types and prices and replace the refreshed file.

    Args:
        store: Where the refreshed file is.
        clients: Clients of the vendor.
        regions: Regions to ask for.
        now: Time of the question.

    Raises:
        CatalogRefreshError: An answer is empty or implausible. As with any other error, the last good file stays.
    """
    bundled = load_catalog()
    offered = {region: _offered(clients.ec2(region), region=region, bundled=bundled) for region in regions}
    types, chips = _types(clients, offered)
    listed = _list_prices(bundled, read_refreshed(store)[0])
    on_demand = _on_demand(clients.pricing(), types, regions=regions, before=listed, now=now)
    listed |= {(quote.type, quote.region): Decimal(quote.usd_per_h) for quote in on_demand.usable}
    spot = _spot(clients, types, regions=regions, on_demand=listed, now=now)
    try:
        refreshed = Refreshed(
            currency="USD",
            regions=regions,
            facts=Sourced(as_of=now.date(), source="EC2 DescribeInstanceTypes and DescribeInstanceTypeOfferings"),
            chips=chips,
            types=types,
            quotes=(*on_demand.usable, *spot.usable),
        )
    except ValidationError as error:
        raise CatalogRefreshError(f"the answers make no catalog: {error}") from error
    write_refreshed(store, refreshed)
    refused = (*on_demand.refused, *spot.refused)
    return RefreshReport(
        regions=regions,
        types=len(types),
        on_demand_prices=len(on_demand.usable),
        spot_prices=len(spot.usable),
        new_accelerators=tuple(sorted(chips)),
        refused=len(refused),
        refused_examples=refused[:_SHOWN],
    )


def _pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[Any]:  # noqa: ANN401 - boto3 has no types
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page[key]


def _offered(ec2: Any, *, region: str, bundled: Iterable[Offer]) -> set[str]:  # noqa: ANN401 - boto3 has no types
    offerings = _pages(ec2, "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="region")
    names = wanted_types(offerings, listed=(offer.instance_type for offer in bundled))
    if not names:
        raise CatalogRefreshError(f"DescribeInstanceTypeOfferings: no type that could train in {region}")
    return names


def _types(clients: AwsClients, offered: Mapping[str, set[str]]) -> tuple[tuple[InstanceType, ...], dict[str, Chip]]:
    """Facts of all offered types; each type is asked for once, in the first region that has it."""
    records: dict[str, Mapping[str, Any]] = {}
    for region, names in offered.items():
        missing = sorted(names - records.keys())
        for start in range(0, len(missing), _TYPES_PER_CALL):
            chunk = missing[start : start + _TYPES_PER_CALL]
            pages = _pages(clients.ec2(region), "describe_instance_types", "InstanceTypes", InstanceTypes=chunk)
            records |= {str(record["InstanceType"]): record for record in pages}
    regions: dict[str, list[str]] = {}
    for region, names in offered.items():
        for name in names:
            regions.setdefault(name, []).append(region)
    types, chips = parse_types(records.values(), regions=regions, known=load_chips())
    if not any(entry.count for entry in types):
        raise CatalogRefreshError("DescribeInstanceTypes: no type with an accelerator")
    return types, chips


def _list_prices(bundled: Iterable[Offer], last: Refreshed | None) -> dict[Key, Decimal]:
    """On-demand prices as they were known before: bundled, then refreshed."""
    prices = {
        (offer.instance_type, offer.region): Decimal(offer.price.usd_per_h)
        for offer in bundled
        if offer.price is not None and offer.purchase is PurchaseOption.ON_DEMAND
    }
    quotes = last.quotes if last else ()
    return prices | {(q.type, q.region): Decimal(q.usd_per_h) for q in quotes if q.purchase == "on-demand"}


def _on_demand(
    pricing: Any,  # noqa: ANN401 - boto3 has no types
    types: Iterable[InstanceType],
    *,
    regions: Iterable[str],
    before: Mapping[Key, Decimal],
    now: datetime,
) -> Quotes:
    wanted = {
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    found = []
    for region in regions:
        filters = {**wanted, "regionCode": region}
        price_list = _pages(
            pricing,
            "get_products",
            "PriceList",
            ServiceCode="AmazonEC2",
            Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()],
        )
        names = {entry.type for entry in types if region in entry.regions and "on-demand" in entry.purchase}
        found.append(parse_products(price_list, region=region, types=names, before=before, now=now))
    return _checked(found, what="Pricing GetProducts")


def _spot(
    clients: AwsClients,
    types: Iterable[InstanceType],
    *,
    regions: Iterable[str],
    on_demand: Mapping[Key, Decimal],
    now: datetime,
) -> Quotes:
    found = []
    for region in regions:
        names = {entry.type for entry in types if region in entry.regions and "spot" in entry.purchase}
        history = _pages(
            clients.ec2(region),
            "describe_spot_price_history",
            "SpotPriceHistory",
            StartTime=now,
            ProductDescriptions=list(SPOT_PRODUCTS),
            InstanceTypes=sorted(names),
        )
        found.append(parse_spot(history, region=region, types=names, on_demand=on_demand, now=now))
    return _checked(found, what="DescribeSpotPriceHistory")


def _checked(found: Iterable[Quotes], *, what: str) -> Quotes:
    """All regions together; refused where nothing is left, or where too much of it makes no sense."""
    parts = tuple(found)
    usable = tuple(quote for part in parts for quote in part.usable)
    refused = tuple(reason for part in parts for reason in part.refused)
    if not usable and not refused:
        raise CatalogRefreshError(f"{what}: no price at all")
    if len(refused) > _REFUSED_AT_MOST * (len(usable) + len(refused)):
        raise CatalogRefreshError(
            f"{what}: {len(refused)} of {len(usable) + len(refused)} prices make no sense, for example "
            f"{'; '.join(refused[:_SHOWN])}"
        )
    return Quotes(usable=usable, refused=refused)
