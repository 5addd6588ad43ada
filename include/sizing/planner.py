"""The plan: all offers x instances x layouts for a demand, reasons for the rejected, and the best of the rest. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time

from include.config.settings import Settings
from include.config.workload import Workload
from include.core.contracts.correction import Correction
from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Layout, Plan, RankedOffer
from include.sizing.assumptions import Assumptions, assume
from include.sizing.front import pareto
from include.sizing.judging import Judge, Judged, Question, Rank, on_demand_prices
from include.sizing.nearest import nothing_fits
from include.sizing.prediction import Forecaster, Option, twin_of
from include.sizing.purchase import PurchaseRule, purchase_rule
from include.sizing.question import check_question, own_engine, with_engine
from include.sizing.remarks import old_price, reversed_prices
from include.sizing.steps import StepTimes

_FALLBACKS = 4
# A fallback that needs nearly as much memory would run out of it as well.
_LESS_MEMORY = 0.9


def make_plan(
    *,
    demand: Demand,
    offers: Iterable[Offer],
    workload: Workload,
    settings: Settings,
    today: date,
    now: datetime | None = None,
    engine: str | None = None,
    quota: Mapping[str, int] | None = None,
    corrections: Sequence[Correction] = (),
) -> Plan:
    """Choose an offer, a number of instances and a layout for the training.

    Args:
        demand: What the training needs.
        offers: Everything that could be rented, with or without a price, whatever its engine.
        workload: Limits, criticality, objective, engine.
        settings: Region, tariff and powers of this machine.
        today: Date against which prices are old.
        now: Moment from which ``limits.deadline`` counts; default: the beginning of today, UTC.
        engine: Engine that may launch, instead of the workload's; ``any`` for the best plan were all configured.
        quota: vCPUs that may be rented, by class of instances: ``p``, ``g``, ``inf``, ``trn``, ``standard``, ...
        corrections: What earlier runs taught.

    Returns:
        The best offer by the workload's objective; all others stand in ``alternatives`` with their predictions ("what
        it would have been") and, where rejected, the reasons.

    Raises:
        NothingFitsError: No offer that can be launched fits; says which limits of the nearest one to relax by how much.
        UserError: The deadline has passed, or a region, an instance family or an engine is unknown.
    """
    workload = with_engine(workload, settings)
    listed = tuple(offers)
    moment = now or datetime.combine(today, time.min, UTC)
    question = Question(
        workload=workload,
        limits=check_question(workload, listed, engine=engine, now=moment),
        engine=engine or own_engine(workload),
        quota=quota or {},
        rule=purchase_rule(workload),
    )
    assumed, times = assume(settings), StepTimes(demand, workload, corrections)
    twins = on_demand_prices(listed)
    judge = Judge(question, times, Forecaster(demand=demand, workload=workload, assumed=assumed, on_demand=twins))
    judged = sorted((judge.judge(offer) for offer in listed), key=lambda item: _order(item, judge))
    best = next((item for item in judged if item.accepted), None)
    if best is None or best.option is None:
        raise nothing_fits(judged, question)
    plan = _plan(best.option, judged, judge=judge, question=question, times=times, assumed=assumed)
    spot = best.offer.purchase is PurchaseOption.SPOT and twin_of(best.offer) in twins
    return replace(
        plan,
        rule=f"{plan.rule}{old_price(best.offer, today)}",
        fallback_offer=f"{best.offer.instance_type}/on-demand/{best.offer.region}" if spot else None,
        remarks=reversed_prices(listed, best.offer, precision=workload.training.precision),
    )


def _plan(
    chosen: Option,
    judged: Sequence[Judged],
    *,
    judge: Judge,
    question: Question,
    times: StepTimes,
    assumed: Assumptions,
) -> Plan:
    mine = judge.ranked_option(chosen, None)
    assert mine.prediction is not None
    anywhere = next(item for item in judged if item.fits)
    others = (item for item in judged if item.offer is not chosen.offer)
    return Plan(
        offer=chosen.offer,
        instances=chosen.instances,
        layout=chosen.step.layout,
        prediction=mine.prediction,
        checkpoint_every_steps=chosen.course.every,
        objective=question.workload.compute.objective,
        rule=_decided_by(chosen.offer, question.rule),
        alternatives=tuple(judge.ranked(item) for item in sorted(others, key=lambda item: not item.accepted)),
        naive=_naive(judged, judge),
        interruptions_per_h=chosen.instances * assumed.rate_of(chosen.offer),
        fallback_layouts=fallbacks(chosen, times, batch_size=question.workload.training.batch_size),
        front=_front(chosen, judged, judge),
        anywhere=judge.ranked(anywhere) if anywhere.offer is not chosen.offer else None,
    )


def _order(item: Judged, judge: Judge) -> Rank:
    if item.option is None:
        return math.inf, math.inf, math.inf, math.inf, item.offer.name, item.offer.zone or "", 1
    return judge.rank(item.option)


def _front(chosen: Option, judged: Sequence[Judged], judge: Judge) -> tuple[RankedOffer, ...]:
    items = {id(item.offer): item for item in judged}
    front = pareto(option for item in judged if item.fits for option in item.options)
    if not any(option is chosen for option in front):
        # Another engine's plan beats it in everything, or one equals it; it is what will be launched all the same.
        front = sorted((*front, chosen), key=lambda option: (option.time_s, option.offer.name))
    return tuple(judge.ranked_option(option, items[id(option.offer)].reason) for option in front)


def fallbacks(chosen: Option, times: StepTimes, *, batch_size: int) -> tuple[Layout, ...]:
    """What to try on the same machines when the layout runs out of memory: less memory each time, the fastest first."""
    layout, device = chosen.step.layout, times.device_of(chosen.offer)
    if device is None or times.table.planned_as_traced or chosen.offer.engine == "local":
        return _halved(layout, batch_size)
    found: list[Layout] = []
    room = _LESS_MEMORY * chosen.step.traced_bytes
    while len(found) < _FALLBACKS and (fit := times.fastest_within(chosen.offer, layout.workers, room)) is not None:
        found.append(fit.layout)
        room = _LESS_MEMORY * fit.traced_bytes
    return tuple(found)


def _halved(layout: Layout, batch_size: int) -> tuple[Layout, ...]:
    """The same step in less memory: half the micro-batch, or recomputed activations where it is 1 already."""
    if layout.micro_batch == 1:
        return (replace(layout, activation_checkpointing="block"),) if layout.activation_checkpointing == "off" else ()
    half = math.ceil(layout.micro_batch / 2)
    rows = math.ceil(batch_size / layout.data_parallel)
    return (replace(layout, micro_batch=half, accumulation=math.ceil(rows / half)),)


def _naive(judged: Sequence[Judged], judge: Judge) -> RankedOffer | None:
    """The choice without sizing: the type with the most device memory, on demand, where it is cheapest.

    Of what the workload may rent: its regions, its families, its quota. Limits that a prediction breaks do not count,
    since nobody would have predicted anything; they are in the reason.
    """
    priced = [
        (option, item)
        for item in judged
        if item.offer.purchase is PurchaseOption.ON_DEMAND and item.offer.accelerators and not item.barred
        for option in ([item.option] if item.option is not None else [])
        if option.usd is not None
    ]
    if not priced:
        return None
    largest = max(_device_bytes(item.offer) for _, item in priced)
    candidates = [judge.single(item.offer) for _, item in priced if _device_bytes(item.offer) == largest]
    cheapest = min(
        (option for option in candidates if option is not None and option.usd is not None),
        key=lambda option: (option.usd, option.time_s, option.offer.name),
        default=None,
    )
    if cheapest is None:
        return None
    item = next(item for item in judged if item.offer is cheapest.offer)
    broken = "; ".join(judge.broken(cheapest))
    return judge.ranked_option(cheapest, "; ".join(filter(None, (item.elsewhere, broken))) or None)


def _device_bytes(offer: Offer) -> int:
    return offer.accelerators * (offer.accelerator_memory_bytes or 0)


def _decided_by(offer: Offer, rule: PurchaseRule) -> str:
    if offer.purchase is PurchaseOption.LOCAL:
        which = "this machine" if offer.engine == "local" else "the machine"
        return f"{which} is already there, so nothing is purchased; rented capacity would follow '{rule.sentence}'"
    return f"{rule.sentence}; taken: {offer.purchase.value}"
