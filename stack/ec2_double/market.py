"""Capacity, prices and quotas over time. Pure: time is in seconds since the market opened."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from include.catalog.catalog_file import InstanceType, read_catalog
from stack.ec2_double.market_file import CapacityRule, MarketFile, PriceRule, TraceRule, read_trace

# Zones of a region that no rule speaks of.
_LETTERS = {"us-east-1": "abcdef", "us-west-2": "abcd"}
_OTHER_LETTERS = "abc"
# AWS states spot prices with four to six digits.
_CENT_PARTS = Decimal("0.0001")


@cache
def catalog_types() -> Mapping[str, InstanceType]:
    """Types of the bundled catalog by name."""
    return {entry.type: entry for entry in read_catalog().types}


class Market:
    """What can be had.

    Args:
        rules: The market's rules; none means any number of every type of the catalog, at catalog prices.
    """

    def __init__(self, rules: MarketFile | None = None) -> None:
        self.rules = rules or MarketFile()

    @classmethod
    def of(cls, **fields: Any) -> Market:  # noqa: ANN401 - fields of MarketFile, which checks them
        """A market by the fields of its file."""
        return cls(MarketFile.model_validate(fields))

    @classmethod
    def from_file(cls, path: Path) -> Market:
        """A market from a JSON file.

        Raises:
            pydantic.ValidationError: The file has mistakes.
        """
        return cls(MarketFile.model_validate_json(path.read_text(encoding="utf-8")))

    @classmethod
    def from_traces(cls, zones: Mapping[str, Path], *, offset_s: float = 0.0, **fields: Any) -> Market:  # noqa: ANN401
        """A market whose spot capacity follows a trace in each zone; a zone without one has no spot.

        Args:
            zones: Trace file by zone.
            offset_s: Seconds of the traces that are over when the market opens.
            fields: Further fields of `MarketFile`.
        """
        traces = [read_trace(path, zone=zone, offset_s=offset_s) for zone, path in zones.items()]
        none_elsewhere = CapacityRule(purchase="spot", instances=0)
        return cls.of(**{"capacity": (none_elsewhere,), **fields, "traces": traces})

    def zones(self, region: str) -> tuple[str, ...]:
        """Zones of a region: its usual ones, and those that rules name."""
        usual = {f"{region}{letter}" for letter in _LETTERS.get(region, _OTHER_LETTERS)}
        spoken_of = [*(rule.zone for rule in self.rules.traces), *(rule.zone for rule in self.rules.capacity)]
        named = {zone for zone in spoken_of if zone[:-1] == region}
        return tuple(sorted(usual | {zone for zone in named if zone[-1:].isalpha()}))

    def knows(self, instance_type: str) -> bool:
        """Whether there is such a type."""
        return instance_type in self.rules.types or instance_type in catalog_types()

    def vcpus(self, instance_type: str) -> int:
        """Virtual CPUs of a type that is known."""
        own = self.rules.types.get(instance_type)
        return catalog_types()[instance_type].vcpus if own is None else own

    def offers(self, instance_type: str, zone: str) -> bool:
        """Whether a zone has the type at all, with or without capacity."""
        gaps = self.rules.not_offered
        if any(fnmatchcase(instance_type, gap.type) and fnmatchcase(zone, gap.zone) for gap in gaps):
            return False
        entry = catalog_types().get(instance_type)
        return instance_type in self.rules.types or (entry is not None and zone[:-1] in entry.regions)

    def sells(self, instance_type: str, purchase: str) -> bool:
        """Whether a type can be had by a purchase option."""
        entry = catalog_types().get(instance_type)
        return entry is None or purchase in entry.purchase

    def capacity(self, *, instance_type: str, purchase: str, zone: str, at_s: float) -> float:
        """Instances of the type that may run at once, infinite for any number."""
        if purchase == "spot":
            for trace in self.rules.traces:
                if trace.zone == zone and fnmatchcase(instance_type, trace.type):
                    return _traced(trace, at_s)
        for rule in reversed(self.rules.capacity):
            if _holds(rule, at_s) and _fits(rule, instance_type=instance_type, purchase=purchase, zone=zone):
                return math.inf if rule.instances is None else rule.instances
        return math.inf

    def next_change_s(self, after_s: float) -> float | None:
        """When capacity may change next, None for never again."""
        position = bisect_right(self._changes, after_s)
        return self._changes[position] if position < len(self._changes) else None

    @cached_property
    def _changes(self) -> list[float]:
        moments = {moment for rule in self.rules.capacity for moment in (rule.from_s, rule.until_s) if moment}
        return sorted(moments.union(*(_trace_changes(trace) for trace in self.rules.traces)))

    def usd_per_h(self, *, instance_type: str, purchase: str, zone: str, at_s: float) -> Decimal | None:
        """Price of an instance, None where neither a rule nor the catalog has one."""
        for rule in reversed(self.rules.prices):
            if rule.from_s <= at_s and _fits(rule, instance_type=instance_type, purchase=purchase, zone=zone):
                return rule.usd_per_h
        entry = catalog_types().get(instance_type)
        listed = entry.usd_per_h.get(zone[:-1]) if entry else None
        if listed is None:
            return None
        usd = Decimal(listed)
        return usd if purchase != "spot" else (usd * self.rules.spot_ratio).quantize(_CENT_PARTS)


def _fits(rule: CapacityRule | PriceRule, *, instance_type: str, purchase: str, zone: str) -> bool:
    return rule.purchase in {"*", purchase} and fnmatchcase(instance_type, rule.type) and fnmatchcase(zone, rule.zone)


def _holds(rule: CapacityRule, at_s: float) -> bool:
    return rule.from_s <= at_s and (rule.until_s is None or at_s < rule.until_s)


def _traced(trace: TraceRule, at_s: float) -> float:
    # A moment that was computed as the begin of a tick must not fall into the one before.
    tick = int((at_s + trace.offset_s) / trace.gap_s + 1e-9)
    # Beyond its end a trace says nothing; its last word holds.
    units = trace.data[min(max(tick, 0), len(trace.data) - 1)]
    if units <= 0:
        return 0
    return math.inf if trace.instances is None else units * trace.instances


def _trace_changes(trace: TraceRule) -> Iterator[float]:
    pairs: Iterable[tuple[int, int]] = zip(trace.data, trace.data[1:], strict=False)
    for tick, (before, after) in enumerate(pairs, start=1):
        moment = tick * trace.gap_s - trace.offset_s
        if before != after and moment > 0:
            yield moment
