"""The plan: rank all offers for a demand, reject with reasons, choose the best that may be launched. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from include.catalog.freshness import age_days
from include.config.settings import Settings
from include.config.workload import Workload
from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Layout, Objective, Plan, Prediction, RankedOffer
from include.core.errors import NothingFitsError
from include.sizing.assumptions import USABLE_MEMORY, assume
from include.sizing.limits import Violation, violations
from include.sizing.prediction import Forecast, forecast
from include.sizing.purchase import PurchaseRule, purchase_rule

# Prices older than this are named as old in the plan.
STALE_AFTER_DAYS = 90
_NEAREST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One offer with its forecast and everything that speaks against it.

    Attributes:
        offer: The offer.
        forecast: What the training would take on it.
        blockers: Reasons that no limit can be relaxed for.
        violated: Limits that it does not keep.
    """

    offer: Offer
    forecast: Forecast
    blockers: tuple[str, ...]
    violated: tuple[Violation, ...]

    @property
    def prediction(self) -> Prediction:
        """The forecast's figures."""
        return self.forecast.prediction

    @property
    def accepted(self) -> bool:
        """Whether it may be chosen."""
        return not self.blockers and not self.violated

    def ranked(self) -> RankedOffer:
        """For the plan: with its prediction where there is one, and the reasons against it."""
        reasons = "; ".join((*self.blockers, *(v.text for v in self.violated)))
        known = self.prediction.time_s is not None
        return RankedOffer(offer=self.offer, prediction=self.prediction if known else None, rejected=reasons or None)


def make_plan(*, demand: Demand, offers: Iterable[Offer], workload: Workload, settings: Settings, today: date) -> Plan:
    """Choose an offer and a layout for the training.

    Args:
        demand: What the training needs.
        offers: Everything that could be rented, with or without a price, whatever its engine.
        workload: Limits, criticality, objective, engine.
        settings: Region, tariff and powers of this machine.
        today: Date against which prices are old.

    Returns:
        The best offer by the workload's objective; all others stand in ``alternatives`` with their predictions ("what
        it would have been") and, where rejected, the reasons.

    Raises:
        NothingFitsError: No offer that can be launched fits; says which limits of the nearest one to relax by how much.
    """
    assumptions, layout = assume(settings), _layout(demand, workload)
    forecasts = [
        (offer, forecast(demand=demand, offer=offer, workload=workload, layout=layout, assumptions=assumptions))
        for offer in offers
    ]
    rule = purchase_rule(workload, spot_fits=_spot_fits(forecasts, demand, workload))
    objective = workload.compute.objective
    judged = sorted(
        (_judge(offer, found, demand=demand, workload=workload, rule=rule) for offer, found in forecasts),
        key=lambda item: _rank(item, objective),
    )
    accepted = [item for item in judged if item.accepted]
    if not accepted:
        raise _nothing_fits(judged, workload)
    best = accepted[0]
    others = (*accepted[1:], *(item for item in judged if not item.accepted))
    return Plan(
        offer=best.offer,
        layout=layout,
        prediction=best.prediction,
        checkpoint_every_steps=best.forecast.checkpoint_every_steps,
        objective=objective,
        rule=f"{_decided_by(best.offer, rule)}{_price_note(best.offer, today)}",
        alternatives=tuple(item.ranked() for item in others),
        naive=_naive(judged),
        interruptions_per_h=assumptions.interruptions_per_h[best.offer.purchase],
        fallback_layouts=_fallbacks(layout, workload.training.batch_size),
    )


def _layout(demand: Demand, workload: Workload) -> Layout:
    training = workload.training
    return Layout(
        precision=training.precision,
        micro_batch=demand.micro_batch,
        accumulation=math.ceil(training.batch_size / demand.micro_batch),
    )


def _fallbacks(layout: Layout, batch_size: int) -> tuple[Layout, ...]:
    """The same step in less memory: half the micro-batch, or recomputed activations where it is 1 already."""
    if layout.micro_batch == 1:
        return (replace(layout, activation_checkpointing="block"),) if layout.activation_checkpointing == "off" else ()
    half = math.ceil(layout.micro_batch / 2)
    rows = math.ceil(batch_size / layout.data_parallel)
    return (replace(layout, micro_batch=half, accumulation=math.ceil(rows / half)),)


def _judge(offer: Offer, found: Forecast, *, demand: Demand, workload: Workload, rule: PurchaseRule) -> Judged:
    blockers = [*_memory(offer, found.prediction, demand), *_unknown(offer, found.prediction, workload)]
    if offer.engine != workload.compute.engine:
        blockers.append(f"engine {offer.engine} is not configured")
    if offer.purchase not in rule.admissible:
        blockers.append(f"not admissible: {rule.sentence}")
    return Judged(
        offer=offer,
        forecast=found,
        blockers=tuple(blockers),
        # A prediction without time has no figures at all, which is a blocker of its own.
        violated=() if found.prediction.time_s is None else violations(found.prediction, workload.limits),
    )


def _memory(offer: Offer, prediction: Prediction, demand: Demand) -> list[str]:
    reasons = []
    device = offer.accelerator_memory_bytes
    if device is not None and prediction.peak_device_bytes > USABLE_MEMORY * device:
        reasons.append(f"needs {_gb(prediction.peak_device_bytes)} of device memory, has {_gb(device)}")
    if demand.host_ram_bytes > USABLE_MEMORY * offer.ram_bytes:
        reasons.append(f"needs {_gb(demand.host_ram_bytes)} of host memory, has {_gb(offer.ram_bytes)}")
    return reasons


def _unknown(offer: Offer, prediction: Prediction, workload: Workload) -> list[str]:
    objective = workload.compute.objective
    if prediction.time_s is None:
        wanted = f"{offer.accelerator or 'CPU'} in {workload.training.precision}"
        return [f"time unknown: no datasheet figures for {wanted}"]
    if objective is Objective.COST and prediction.usd is None:
        return ["no price: listed, never chosen by cost"]
    if objective is Objective.CARBON and prediction.gco2e is None:
        return ["carbon unknown: never chosen by carbon"]
    return []


def _spot_fits(forecasts: Sequence[tuple[Offer, Forecast]], demand: Demand, workload: Workload) -> bool:
    return any(
        offer.purchase is PurchaseOption.SPOT
        and offer.engine == workload.compute.engine
        and not _memory(offer, found.prediction, demand)
        and not _unknown(offer, found.prediction, workload)
        and not violations(found.prediction, workload.limits)
        for offer, found in forecasts
    )


def _rank(item: Judged, objective: Objective) -> tuple[float, float, float, str]:
    """Best first by the objective; ties by cost, then time, then name. Unknown figures come last."""
    figures = item.prediction
    wanted = {Objective.COST: figures.usd, Objective.TIME: figures.time_s, Objective.CARBON: figures.gco2e}[objective]
    cost, time_s, key = (math.inf if value is None else value for value in (figures.usd, figures.time_s, wanted))
    return key, cost, time_s, item.offer.name


def _nothing_fits(judged: Sequence[Judged], workload: Workload) -> NothingFitsError:
    engine = workload.compute.engine
    near = [item for item in judged if not item.blockers]
    if near:
        nearest = min(near, key=lambda item: max(v.excess for v in item.violated))
        return NothingFitsError(
            "no offer keeps the limits",
            where=f"workload {workload.name}",
            found=f"nearest is {nearest.offer.name}: {', '.join(v.text for v in nearest.violated)}",
            todo=f"{', '.join(v.remedy for v in nearest.violated)}, or train for fewer epochs",
        )
    mine = [item for item in judged if item.offer.engine == engine]
    reasons = [f"{item.offer.name}: {'; '.join(item.blockers)}" for item in mine[:_NEAREST_SHOWN]]
    return NothingFitsError(
        f"no offer of engine {engine} fits",
        where=f"workload {workload.name}",
        found=" / ".join(reasons) or "no offers at all",
        todo="use a smaller batch or model, bf16, or another engine",
    )


def _naive(judged: Sequence[Judged]) -> RankedOffer | None:
    """The choice without sizing: the type with the most device memory, on demand, where it is cheapest."""
    priced = [
        item
        for item in judged
        if item.offer.purchase is PurchaseOption.ON_DEMAND
        and item.offer.accelerators
        and item.prediction.usd is not None
    ]
    if not priced:
        return None
    largest = max(_device_bytes(item.offer) for item in priced)
    cheapest = min(
        (item for item in priced if _device_bytes(item.offer) == largest), key=lambda item: _rank(item, Objective.COST)
    )
    return cheapest.ranked()


def _device_bytes(offer: Offer) -> int:
    return offer.accelerators * (offer.accelerator_memory_bytes or 0)


def _decided_by(offer: Offer, rule: PurchaseRule) -> str:
    if offer.purchase is PurchaseOption.LOCAL:
        return f"this machine is already there, so nothing is purchased; rented capacity would follow '{rule.sentence}'"
    return rule.sentence


def _price_note(offer: Offer, today: date) -> str:
    if offer.price is None:
        return "; its price is unknown"
    age = age_days(offer.price, today)
    return f"; its price is {age} days old" if age > STALE_AFTER_DAYS else ""


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
