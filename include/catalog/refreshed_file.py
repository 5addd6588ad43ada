"""The catalog that a refresh leaves in the store: types as the vendor describes them, and prices with their day."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from include.catalog.catalog_file import Chip, InstanceType, Sourced, Usd
from include.config.schedule import Edge
from include.core.store import ObjectStore

KEY = "catalog/aws.json"


class Quote(Edge):
    """One price that the vendor asked.

    Attributes:
        type: Instance type.
        region: Region.
        zone: Zone of a spot price, None for an on-demand price, which holds in the whole region.
        purchase: Purchase option.
        usd_per_h: The price.
        as_of: Day on which it held.
        source: Which interface gave it.
    """

    type: str
    region: str
    zone: str | None
    purchase: Literal["on-demand", "spot"]
    usd_per_h: Usd
    as_of: date
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _zone_of_spot(self) -> Quote:
        if (self.purchase == "spot") != (self.zone is not None):
            raise ValueError("a spot price is of a zone, an on-demand price of a region")
        return self


class Refreshed(Edge):
    """A whole refreshed file.

    Attributes:
        currency: Of all prices.
        regions: Regions that were asked; what the bundled list says of them is replaced.
        facts: Where and when the types were read.
        chips: Accelerators that the bundled list does not know: their memory, no more.
        types: Instance types with the regions that offer them.
        quotes: Prices.
    """

    currency: Literal["USD"]
    regions: tuple[str, ...] = Field(min_length=1)
    facts: Sourced
    chips: dict[str, Chip]
    types: tuple[InstanceType, ...] = Field(min_length=1)
    quotes: tuple[Quote, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _references(self) -> Refreshed:
        offered = {(entry.type, region) for entry in self.types for region in entry.regions}
        if outside := {region for _, region in offered} - set(self.regions):
            raise ValueError(f"types of regions that were not asked: {sorted(outside)}")
        if unknown := {(quote.type, quote.region) for quote in self.quotes} - offered:
            raise ValueError(f"prices of types that are not offered there: {sorted(unknown)[:3]}")
        return self


def read_refreshed(store: ObjectStore) -> tuple[Refreshed | None, str | None]:
    """The last good refreshed file, and a note when there is one that cannot be used."""
    content = store.get(KEY)
    if content is None:
        return None, None
    try:
        return Refreshed.model_validate_json(content), None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "(file)"
        return None, f"the refreshed catalog {store.uri(KEY)} is damaged and not used: {place}: {first['msg']}"


def write_refreshed(store: ObjectStore, refreshed: Refreshed) -> None:
    """Replace the refreshed file; a reader sees the old one or the new one, never a part."""
    store.put(KEY, refreshed.model_dump_json().encode())
