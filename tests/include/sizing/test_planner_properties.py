"""What must hold of every plan, whatever is on offer."""

from __future__ import annotations

import dataclasses
import math
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from include.config.settings import Settings
from include.config.workload import LimitsSection, Weights
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Criticality, Objective
from include.core.errors import NothingFitsError
from include.sizing.assumptions import USABLE_MEMORY
from include.sizing.planner import make_plan
from tests.support.exhaustive_plan import Search, same
from tests.support.offers import demand, offer, order, this_machine
from tests.support.textbook_demands import demand_of, transformer

PLAIN = order()
TODAY = date(2026, 11, 30)
MAYBE_PRICE = st.none() | st.decimals("0.001", "100", places=3).map(str)
OBJECTIVES = {"cost": "usd", "time": "time_s", "carbon": "gco2e"}
WEIGHTS = {"cost": 1.0, "time": 0.5, "carbon": 2.0}
TABLED = demand_of(
    transformer(layers=4, hidden=256, vocabulary=1000, tokens=128), micro_batch=64, steps=20_000, family="small"
)
# Its checkpoint takes as long as hundreds of steps, so that a slower step with more shards may be the better plan.
HEAVY = dataclasses.replace(TABLED, steps=500, checkpoint_bytes=10**11)


@st.composite
def an_offer(draw, index):
    rented = draw(st.booleans())
    power = draw(st.sampled_from([{"idle_w": None, "peak_w": None}, {"idle_w": 30.0, "peak_w": 400.0}]))
    if not rented:
        return this_machine(instance_type=f"m{index}", usd=draw(MAYBE_PRICE), **power)
    return offer(
        instance_type=f"g{index}",
        usd=draw(MAYBE_PRICE),
        purchase=draw(st.sampled_from([PurchaseOption.SPOT, PurchaseOption.ON_DEMAND])),
        region=draw(st.sampled_from(["us-east-1", "eu-north-1", "nowhere-1"])),
        accelerators=draw(st.integers(1, 8)),
        accelerator_memory_bytes=draw(st.sampled_from([10**9, 2 * 10**9, 16 * 10**9, 80 * 10**9])),
        interconnect_bytes_per_s=draw(st.sampled_from([None, 3e11])),
        network_bytes_per_s=draw(st.sampled_from([None, 1e9, 5e10])),
        accelerator_tflops=draw(st.sampled_from([{}, {"fp32": 0.01}, {"fp32": 60.0}])),
        ram_bytes=draw(st.sampled_from([10**8, 16 * 10**9])),
        **power,
    )


@st.composite
def a_market(draw):
    return tuple(draw(an_offer(index)) for index in range(draw(st.integers(1, 8))))


LIMITS = st.fixed_dictionaries(
    {
        "deadline_h": st.none() | st.floats(0.001, 10),
        "budget_usd": st.none() | st.floats(0.001, 10),
        "max_gco2e": st.none() | st.floats(0.01, 100),
    }
)
QUESTIONS = {
    "market": a_market(),
    "limits": LIMITS,
    "objective": st.sampled_from([*sorted(OBJECTIVES), "weighted"]),
    "criticality": st.sampled_from(["exploratory", "normal", "critical"]),
    "engine": st.sampled_from(["local", "ec2", "any"]),
    "needs": st.sampled_from([demand(), TABLED, HEAVY]),
}


def order_of(*, limits, objective, criticality, engine, families=()):
    return PLAIN.model_copy(
        update={
            "limits": LimitsSection(**limits),
            "criticality": Criticality(criticality),
            "compute": PLAIN.compute.model_copy(
                update={
                    "engine": engine,
                    "objective": Objective(objective),
                    "weights": Weights(**WEIGHTS) if objective == "weighted" else None,
                    "families": families,
                }
            ),
        }
    )


def ask(*, market, needs, **sections):
    try:
        return make_plan(demand=needs, offers=market, workload=order_of(**sections), settings=Settings(), today=TODAY)
    except NothingFitsError:
        return None


def wanted_of(figures, objective):
    """What the objective minimises."""
    if objective != "weighted":
        return getattr(figures, OBJECTIVES[objective])
    hours, kilograms = figures.time_s / 3600, figures.gco2e / 1000
    return WEIGHTS["cost"] * figures.usd + WEIGHTS["time"] * hours + WEIGHTS["carbon"] * kilograms


def repriced(offer, factor):
    if offer.price is None:
        return offer
    usd = str(Decimal(offer.price.usd_per_h) * factor)
    return dataclasses.replace(offer, price=dataclasses.replace(offer.price, usd_per_h=usd))


@given(**QUESTIONS)
@settings(max_examples=50, deadline=None)
def test_every_choice_is_admissible_within_the_limits_and_the_best_of_those(**question):
    made = ask(**question)
    if made is None:
        return
    limits, figures = question["limits"], made.prediction
    assert question["engine"] in ("any", made.offer.engine)
    for allowed, found, scale in (
        (limits["deadline_h"], figures.time_s, 3600),
        (limits["budget_usd"], figures.usd, 1),
        (limits["max_gco2e"], figures.gco2e, 1),
    ):
        assert allowed is None or (found is not None and found / scale <= allowed)
    if question["criticality"] == "critical":
        assert made.offer.purchase is not PurchaseOption.SPOT
    if question["criticality"] == "exploratory":
        assert made.offer.purchase in {PurchaseOption.SPOT, PurchaseOption.LOCAL}
    if question["objective"] == "cost":
        assert made.offer.price is not None
    if made.offer.accelerators:
        assert figures.peak_device_bytes <= USABLE_MEMORY * made.offer.accelerator_memory_bytes
    accepted = [made.prediction, *(a.prediction for a in made.alternatives if a.rejected is None)]
    wanted = [wanted_of(p, question["objective"]) for p in accepted]
    assert wanted == sorted(wanted)  # the cheaper (faster, cleaner) never stands behind
    assert not math.isinf(wanted[0])


@given(**QUESTIONS)
@settings(max_examples=25, deadline=None)
def test_every_offer_stands_in_the_plan_once_and_rejected_ones_come_last(**question):
    made = ask(**question)
    if made is None:
        return
    names = [made.offer.name, *(a.offer.name for a in made.alternatives)]
    assert sorted(names) == sorted(o.name for o in question["market"])
    states = [a.rejected is not None for a in made.alternatives]
    assert states == sorted(states)
    assert all(a.rejected != "" for a in made.alternatives)
    assert 1 <= made.checkpoint_every_steps <= question["needs"].steps


@given(**QUESTIONS, data=st.data())
@settings(max_examples=40, deadline=None)
def test_loosening_a_limit_never_makes_the_best_plan_worse(data, **question):
    made = ask(**question)
    if made is None:
        return
    key = data.draw(st.sampled_from(sorted(question["limits"])))
    now = question["limits"][key]
    looser = None if now is None else data.draw(st.none() | st.floats(now, 100 * now))
    free = ask(**{**question, "limits": {**question["limits"], key: looser}})
    assert free is not None
    objective = question["objective"]
    assert wanted_of(free.prediction, objective) <= wanted_of(made.prediction, objective)


@given(**QUESTIONS)
@settings(max_examples=30, deadline=None)
def test_more_families_never_make_the_best_plan_worse(**question):
    names = tuple(sorted({offer.instance_type for offer in question["market"]}))
    narrow, wide = ask(**question, families=names[: len(names) // 2]), ask(**question, families=names)
    if narrow is not None:
        objective = question["objective"]
        assert wanted_of(wide.prediction, objective) <= wanted_of(narrow.prediction, objective)


@given(**QUESTIONS, data=st.data())
@settings(max_examples=40, deadline=None)
def test_raising_the_price_of_an_offer_that_was_not_chosen_changes_nothing(data, **question):
    made = ask(**question)
    others = [
        o for o in question["market"] if made is not None and o.name not in (made.offer.name, made.fallback_offer)
    ]
    if not others:
        return
    raised = data.draw(st.sampled_from(others))
    factor = data.draw(st.sampled_from([Decimal("1.01"), Decimal(2), Decimal(1000)]))
    market = tuple(repriced(o, factor) if o is raised else o for o in question["market"])
    again = ask(**{**question, "market": market})
    assert (again.offer, again.instances, again.layout, again.prediction) == (
        made.offer,
        made.instances,
        made.layout,
        made.prediction,
    )


@given(**QUESTIONS, factor=st.sampled_from([Decimal("0.5"), Decimal(2), Decimal(8)]))
@settings(max_examples=40, deadline=None)
def test_scaling_all_prices_scales_the_cost(factor, **question):
    question["limits"] = {**question["limits"], "budget_usd": None}
    if question["objective"] == "weighted":
        question["objective"] = "cost"  # what a dollar is worth beside an hour changes with all prices
    made = ask(**question)
    again = ask(**{**question, "market": tuple(repriced(o, factor) for o in question["market"])})
    assert (made is None) == (again is None)
    if made is None:
        return
    assert (again.offer.name, again.instances, again.layout) == (made.offer.name, made.instances, made.layout)
    if made.prediction.usd is not None:
        assert again.prediction.usd == pytest.approx(float(factor) * made.prediction.usd)


@given(**QUESTIONS)
@settings(max_examples=40, deadline=None)
def test_no_plan_of_the_front_beats_another_and_the_choice_is_among_them(**question):
    made = ask(**question)
    if made is None:
        return
    chosen = [item for item in made.front if (item.offer, item.instances) == (made.offer, made.instances)]
    assert len(chosen) == 1
    triples = [
        tuple(math.inf if v is None else v for v in (p.time_s, p.usd, p.gco2e))
        for item in made.front
        if item is not chosen[0]
        for p in [item.prediction]
    ]
    for one in triples:
        assert not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in triples)


@given(**QUESTIONS)
@settings(max_examples=25, deadline=None)
def test_the_search_leaves_nothing_out(**question):
    made = ask(**question)
    workload = order_of(**{key: question[key] for key in ("limits", "objective", "criticality", "engine")})
    best = Search(question["needs"], workload, question["market"], Settings()).best()
    assert (made is None) == (best is None)
    assert made is None or same(made, best)


@given(**QUESTIONS)
@settings(max_examples=40, deadline=None)
def test_a_cheaper_twin_of_the_choice_is_chosen_instead(**question):
    question["objective"] = "cost"
    made = ask(**question)
    if made is None:
        return
    twin = offer(
        **{
            **{name: getattr(made.offer, name) for name in made.offer.__slots__ if name != "price"},
            "instance_type": "twin",
            "usd": str(float(made.offer.price.usd_per_h) / 2),
        }
    )
    assert ask(**{**question, "market": (*question["market"], twin)}).offer.instance_type == "twin"
