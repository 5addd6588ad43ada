"""Grid carbon intensity per region: a bundled, dated table of yearly averages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from include.core.errors import UserError

TABLE = Path(__file__).with_name("grid_intensity.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridIntensity:
    """Carbon of one kilowatt-hour from a grid, location-based.

    Attributes:
        region: Cloud region, or ``world``.
        gco2e_per_kwh: Grams of CO2 equivalent per kilowatt-hour, None where there is no source.
        year: Year that the average is of.
        scope: What the average is over, for example ``France``.
        source: Where the figure was read.
    """

    region: str
    gco2e_per_kwh: float | None
    year: int | None
    scope: str
    source: str


@cache
def load_intensities() -> dict[str, GridIntensity]:
    """All regions of the bundled table, by name.

    Raises:
        ValueError: The table is damaged: an intensity that is not positive, or one without a year.
    """
    document = json.loads(TABLE.read_text(encoding="utf-8"))
    table = {}
    for region, row in document["regions"].items():
        source = document["sources"][row["source"]] if row["source"] else ""
        entry = GridIntensity(
            region=region,
            gco2e_per_kwh=row["gco2e_per_kwh"],
            year=row["year"],
            scope=row["scope"],
            source=source,
        )
        if entry.gco2e_per_kwh is not None and (entry.gco2e_per_kwh <= 0 or entry.year is None or not source):
            raise ValueError(f"{TABLE.name}: {region} has an intensity without sign, year or source: {row}")
        table[region] = entry
    return table


def intensity_of(region: str) -> GridIntensity:
    """Intensity of one region.

    Raises:
        UserError: The table does not know the region.
    """
    table = load_intensities()
    if region not in table:
        raise UserError(
            "unknown grid region",
            where="PLIMSOLL_REGION",
            found=region,
            allowed=", ".join(sorted(table)),
            todo=f"choose one, or add the region to {TABLE.name}",
        )
    return table[region]
