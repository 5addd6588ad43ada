"""The best plan by looking at every layout on every offer: slow, plain, and shares no search with the planner.

The figures of one layout on one offer come from the same formulas; what is checked is that leaving out layouts, sharing
hardware and taking the largest micro-batch loses nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from include.config.settings import Settings
from include.config.workload import Workload
from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Layout, Plan
from include.sizing.assumptions import USABLE_MEMORY, assume
from include.sizing.communication import Links
from include.sizing.demand_table import memory_of
from include.sizing.judging import on_demand_prices
from include.sizing.limits import bars, violations
from include.sizing.objective import missing, score
from include.sizing.prediction import Forecaster, Option
from include.sizing.purchase import purchase_rule
from include.sizing.steps import StepEstimate, StepTimes

SHARDS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Best:
    """The winner of a search: everything that makes two plans the same, and what it would take."""

    score: float
    usd: float | None
    offer: str
    zone: str | None
    instances: int
    time_s: float


def same(plan: Plan, best: Best) -> bool:
    """Whether a plan is the winner."""
    return (plan.offer.name, plan.offer.zone, plan.instances, plan.prediction.time_s, plan.prediction.usd) == (
        best.offer,
        best.zone,
        best.instances,
        best.time_s,
        best.usd,
    )


def layouts(batch: int, precision: str, workers: int, *, tensors: Sequence[int]) -> Iterator[Layout]:
    remedies = itertools.product(("off", "selective", "block"), (False, True))
    for tensor, shard, (recompute, offload) in itertools.product(tensors, SHARDS, tuple(remedies)):
        if workers % (tensor * shard):
            continue
        replicate = workers // (tensor * shard)
        if batch % (replicate * shard):
            continue
        rows = batch // (replicate * shard)
        for micro in range(1, rows + 1):
            if rows % micro == 0:
                yield Layout(
                    replicate=replicate,
                    shard=shard,
                    tensor=tensor,
                    precision=precision,
                    micro_batch=micro,
                    accumulation=rows // micro,
                    activation_checkpointing=recompute,
                    offload=offload,
                )


def inside_counts(offer: Offer, instances: int) -> Sequence[int]:
    """Numbers of workers in one instance."""
    if offer.mig_profile:
        return (1,)
    if instances > 1:
        return (offer.accelerators,)
    return [n for n in range(1, offer.accelerators + 1) if offer.accelerators % n == 0]


class Search:
    """Looks at everything."""

    def __init__(self, demand: Demand, workload: Workload, offers: Sequence[Offer], settings: Settings) -> None:
        self.demand, self.workload, self.offers = demand, workload, offers
        self.times = StepTimes(demand, workload)
        self.assumed = assume(settings)
        twins = on_demand_prices(offers)
        self.forecaster = Forecaster(demand=demand, workload=workload, assumed=self.assumed, on_demand=twins)
        self.looked_at = 0
        self._steps: dict[tuple, list[tuple[int, StepEstimate]]] = {}

    def best(self) -> Best | None:
        rule = purchase_rule(self.workload)
        compute, limits = self.workload.compute, self.workload.limits
        winner: tuple | None = None
        for offer in self.offers:
            if (compute.engine or "local") not in ("any", offer.engine) or offer.purchase not in rule.admissible:
                continue
            if bars(offer, compute):
                continue
            for option in self.options(offer):
                self.looked_at += 1
                if violations(option, limits) or missing(option, compute):
                    continue
                usd = float("inf") if option.usd is None else option.usd
                gco2e = float("inf") if option.gco2e is None else option.gco2e
                place = (offer.name, offer.zone or "", option.instances)
                key = (score(option, compute), usd, option.time_s, gco2e, *place)
                if winner is None or key < winner[0]:
                    winner = (key, option)
        if winner is None:
            return None
        key, option = winner
        offer = option.offer
        return Best(key[0], option.usd, offer.name, offer.zone, option.instances, option.time_s)

    def options(self, offer: Offer) -> Iterator[Option]:
        rate = self.assumed.rate_of(offer)
        for instances, step in self.steps(offer):
            course = self.forecaster.course(step=step, ratio=1.0, engine=offer.engine, rate_per_h=instances * rate)
            yield self.forecaster.option(offer, instances, step, course)

    def steps(self, offer: Offer) -> list[tuple[int, StepEstimate]]:
        rented = offer.purchase in (PurchaseOption.SPOT, PurchaseOption.ON_DEMAND)
        spread = rented and offer.network_bytes_per_s is not None and offer.mig_profile is None
        counts = (1, 2, 4, 8) if spread and offer.accelerators and offer.engine != "local" else (1,)
        key = (
            self.times.device_of(offer),
            offer.network_bytes_per_s,
            offer.vcpus,
            offer.ram_bytes,
            counts,
            offer.engine,
        )
        if key not in self._steps:
            self._steps[key] = list(self._all_steps(offer, counts))
        return self._steps[key]

    def _all_steps(self, offer: Offer, counts: Sequence[int]) -> Iterator[tuple[int, StepEstimate]]:
        device = self.times.device_of(offer)
        if device is None or not self.demand.cases or offer.engine == "local":
            # One layout alone is known: there is nothing to search.
            if (step := self.times.best(offer, 1)) is not None:
                yield 1, step
            return
        tensors = (1, 2, 4, 8) if self.demand.tensor_bytes_per_sample is not None else (1,)
        training = self.workload.training
        for instances in counts:
            data_s = self.times.data_s(offer, instances)
            for inside in inside_counts(offer, instances):
                links = Links(inside, device.interconnect, offer.network_bytes_per_s)
                for layout in layouts(training.batch_size, training.precision, inside * instances, tensors=tensors):
                    memory = memory_of(self.demand, layout)
                    if memory is None:
                        continue
                    peak = self.times.reserved_bytes(offer, layout, memory.total_bytes)
                    if peak > USABLE_MEMORY * device.memory_bytes:
                        continue
                    if self.times.host_bytes(offer, layout) > USABLE_MEMORY * offer.ram_bytes:
                        continue
                    parts = self.times.parts.of(layout, device=device, links=links)
                    busy = sum(parts.values())
                    step_s = max(busy, data_s)
                    yield instances, StepEstimate(layout, step_s, parts, busy / step_s, memory.total_bytes, peak, 0)
