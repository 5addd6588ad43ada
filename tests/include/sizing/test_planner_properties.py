"""What must hold of every plan, whatever is on offer."""

from __future__ import annotations

import math
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from include.config.settings import Settings
from include.config.workload import LimitsSection
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Criticality, Objective
from include.core.errors import NothingFitsError
from include.sizing.planner import make_plan
from tests.support.offers import demand, offer, order, this_machine

PLAIN = order()
TODAY = date(2026, 11, 30)
MAYBE_PRICE = st.none() | st.decimals("0.001", "100", places=3).map(str)
OBJECTIVES = {"cost": "usd", "time": "time_s", "carbon": "gco2e"}


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
        accelerator_memory_bytes=draw(st.sampled_from([10**9, 16 * 10**9, 80 * 10**9])),
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
    "objective": st.sampled_from(sorted(OBJECTIVES)),
    "criticality": st.sampled_from(["exploratory", "normal", "critical"]),
    "engine": st.sampled_from(["local", "ec2"]),
}


def ask(*, market, limits, objective, criticality, engine):
    made_to = PLAIN.model_copy(
        update={
            "limits": LimitsSection(**limits),
            "criticality": Criticality(criticality),
            "compute": PLAIN.compute.model_copy(update={"engine": engine, "objective": Objective(objective)}),
        }
    )
    try:
        return make_plan(demand=demand(), offers=market, workload=made_to, settings=Settings(), today=TODAY)
    except NothingFitsError:
        return None


@given(**QUESTIONS)
@settings(max_examples=80, deadline=None)
def test_every_choice_is_admissible_within_the_limits_and_the_best_of_those(**question):
    made = ask(**question)
    if made is None:
        return
    limits, figures = question["limits"], made.prediction
    assert made.offer.engine == question["engine"]
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
        assert figures.peak_device_bytes <= made.offer.accelerator_memory_bytes
    accepted = [made.prediction, *(a.prediction for a in made.alternatives if a.rejected is None)]
    wanted = [getattr(p, OBJECTIVES[question["objective"]]) for p in accepted]
    assert wanted == sorted(wanted)  # the cheaper (faster, cleaner) never stands behind
    assert not math.isinf(wanted[0])


@given(**QUESTIONS)
@settings(max_examples=40, deadline=None)
def test_every_offer_stands_in_the_plan_once_and_rejected_ones_come_last(**question):
    made = ask(**question)
    if made is None:
        return
    names = [made.offer.name, *(a.offer.name for a in made.alternatives)]
    assert sorted(names) == sorted(o.name for o in question["market"])
    states = [a.rejected is not None for a in made.alternatives]
    assert states == sorted(states)
    assert all(a.rejected != "" for a in made.alternatives)
    assert 1 <= made.checkpoint_every_steps <= demand().steps


@given(**QUESTIONS)
@settings(max_examples=40, deadline=None)
def test_relaxing_all_limits_never_loses_a_plan(**question):
    if ask(**question) is not None:
        free = dict.fromkeys(("deadline_h", "budget_usd", "max_gco2e"))
        assert ask(**{**question, "limits": free}) is not None


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
