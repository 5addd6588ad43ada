"""The file format of a market: what capacity there is, where, when, at what price."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat

from include.config.schedule import Edge

Purchase = Literal["spot", "on-demand", "*"]


class CapacityRule(Edge):
    """How many instances of a type may run at once in a zone. The last rule that fits holds.

    Attributes:
        type: Pattern of the instance type; each type that fits has this many for itself.
        purchase: ``spot``, ``on-demand`` or ``*``.
        zone: Pattern of the zone.
        from_s: Seconds since the market opened from which it holds.
        until_s: Until when, None for ever.
        instances: How many, None for any number.
    """

    type: str = "*"
    purchase: Purchase = "*"
    zone: str = "*"
    from_s: float = 0.0
    until_s: float | None = None
    instances: int | None = Field(ge=0)


class TraceRule(Edge):
    """Spot availability of one zone, tick by tick. Stands above the capacity rules.

    Attributes:
        zone: Zone.
        type: Pattern of the instance type.
        gap_s: Seconds of a tick.
        data: Available instances by tick; in traces of single instances 1 is available and 0 is not.
        instances: Instances that one unit of the data stands for, None for any number.
        offset_s: Seconds of the trace that are over when the market opens.
    """

    zone: str
    type: str = "*"
    gap_s: PositiveFloat
    data: tuple[int, ...] = Field(min_length=1)
    instances: int | None = Field(default=None, ge=1)
    offset_s: float = Field(default=0.0, ge=0)


class PriceRule(Edge):
    """A price that stands above that of the catalog. The last rule that fits holds."""

    type: str = "*"
    purchase: Purchase = "*"
    zone: str = "*"
    from_s: float = 0.0
    usd_per_h: Decimal = Field(gt=0)


class Unoffered(Edge):
    """A type that a zone does not have at all: a launch is answered with Unsupported."""

    type: str
    zone: str


class Reclaim(Edge):
    """The n-th spot instance that is launched is taken away.

    Attributes:
        nth: Number of the spot instance, from 1.
        after_s: Seconds after it began to run at which the notice comes.
        notice_s: Length of the notice.
    """

    nth: int = Field(ge=1)
    after_s: float = Field(ge=0)
    notice_s: float = Field(default=120.0, ge=0)


class MarketFile(Edge):
    """A whole market.

    Attributes:
        spot_ratio: Spot price over on-demand price where no rule gives one: an assumption, not a quotation.
        capacity: Capacity rules.
        traces: Availability of spot by zone.
        prices: Prices that stand above the catalog's.
        not_offered: Types that zones lack.
        reclaims: Spot instances that are taken away in any case.
        notice_s: Length of the notice of a reclaim for want of capacity.
        rebalance_lead_s: Seconds between a rebalance recommendation and the notice, None for no recommendation.
        quotas: Quotas by code, such as ``L-DB2E81BA``, in vCPUs.
        types: vCPUs of further instance types, which the catalog does not have.
    """

    spot_ratio: Decimal = Field(default=Decimal("0.35"), gt=0, le=1)
    capacity: tuple[CapacityRule, ...] = ()
    traces: tuple[TraceRule, ...] = ()
    prices: tuple[PriceRule, ...] = ()
    not_offered: tuple[Unoffered, ...] = ()
    reclaims: tuple[Reclaim, ...] = ()
    notice_s: float = Field(default=120.0, ge=0)
    rebalance_lead_s: float | None = Field(default=None, ge=0)
    quotas: dict[str, int] = Field(default_factory=dict)
    types: dict[str, int] = Field(default_factory=dict)


def read_trace(path: Path, *, zone: str, **fields: object) -> TraceRule:
    """A trace of the published form ``{"metadata": {"gap_seconds": 195}, "data": [1, 0, ...]}``.

    Args:
        path: The file.
        zone: Zone that it speaks for.
        fields: Further fields of the rule.
    """
    document = json.loads(path.read_text(encoding="utf-8"))
    gap_s = document["metadata"]["gap_seconds"]
    return TraceRule.model_validate({"zone": zone, "gap_s": gap_s, "data": document["data"], **fields})
