"""A plan as a person reads it."""

from __future__ import annotations

from datetime import date

import pytest

from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Layout
from include.sizing.plan_text import describe, layout_text, reasons, time_text
from include.sizing.planner import make_plan
from include.sizing.remarks import saving_of, share_text
from tests.support.offers import demand, offer, order, this_machine

BIG = {"instance_type": "big", "accelerators": 8, "accelerator_memory_bytes": 80 * 10**9}


def plan(*offers, **sections):
    return make_plan(
        demand=demand(),
        offers=offers,
        workload=order(engine="ec2", **sections),
        settings=Settings(),
        today=date(2026, 11, 30),
    )


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(micro_batch=8), "1 worker, 8 x 1 samples, fp32"),
        (
            Layout(replicate=2, shard=4, micro_batch=2, accumulation=3, precision="bf16"),
            "8 workers (replicate 2 x shard 4), 2 x 3 samples, bf16",
        ),
        (
            Layout(shard=2, activation_checkpointing="block", offload=True),
            "2 workers (shard 2), 1 x 1 samples, fp32, recompute block, offload",
        ),
    ],
)
def test_layouts_in_few_words(layout, text):
    assert layout_text(layout) == text


@pytest.mark.parametrize(("seconds", "text"), [(None, "unknown"), (9.5, "9.5 s"), (600, "10 min"), (9000, "2.5 h")])
def test_times_in_the_unit_that_fits(seconds, text):
    assert time_text(seconds) == text


def test_reasons_of_one_kind_are_counted_together():
    made = plan(offer(), *(offer(instance_type=f"tight{i}", accelerator_memory_bytes=i * 10**8) for i in range(1, 8)))
    [(count, text)] = reasons(made.alternatives)
    assert count == 7
    assert text.startswith("needs 1.01 GB of device memory, has 0.")


def test_the_whole_plan_is_told():
    spot = offer(usd="0.2", purchase=PurchaseOption.SPOT)
    text = "\n".join(describe(plan(spot, offer(), offer(usd="60", **BIG), offer(instance_type="x", usd=None))))
    for part in (
        "Plan by cost: g0.test/spot/us-east-1: 1 worker",
        "when no spot capacity comes back: g0.test/on-demand/us-east-1",
        "when memory runs out: 1 worker, 32 x 2 samples",
        "Front by time, cost and carbon, 2 plans:",
        "Without sizing: big/on-demand/us-east-1",
        "Next best of 2 that could be taken:",
        "Rejected: 1 offers",
        "1 x no price: listed, never chosen by cost",
    ):
        assert part in text, text


def test_a_plan_by_time_may_cost_more_than_the_unsized_one_and_says_so():
    slow = {"accelerator_tflops": {"fp32": 0.01}}
    made = plan(offer(instance_type="fast", usd="9000"), offer(usd="60", **BIG, **slow), compute={"objective": "time"})
    assert made.offer.instance_type == "fast"
    assert "USD more (" in saving_of(made).text
    assert saving_of(made).usd < 0


def test_time_memory_and_carbon_are_told_with_what_they_consist_of():
    rented = offer(idle_w=20.0, peak_w=100.0)
    text = "\n".join(describe(plan(rented, offer(usd="60", **BIG))))
    assert "(of which start 60 s, steps 0.84 s, validation 0.0646 s, saves 0.1 s)" in text
    assert "1.01 GB per device with margin, 0.4 GB of host memory per instance" in text
    assert "carbon: grid of " in text
    assert "gCO2e/kWh, " in text
    here = make_plan(
        demand=demand(), offers=(this_machine(),), workload=order(), settings=Settings(), today=date(2026, 11, 30)
    )
    text = "\n".join(describe(here))
    assert "0.4 GB of host memory, tensors alone 0.00814 GB with margin" in text
    assert "carbon: grid of PLIMSOLL_REGION world: 475 gCO2e/kWh, world average, average of 2018 (IEA" in text


def test_the_unsized_choice_is_told_with_the_limits_that_it_breaks():
    cheap, big = offer(usd="0.5"), offer(usd="60", **BIG)
    text = "\n".join(describe(plan(cheap, big, limits={"budget_usd": 0.5})))
    line = next(line for line in text.splitlines() if line.startswith("Without sizing: big/"))
    assert "; against it: limits.budget_usd is 0.5, predicted 1." in line


@pytest.mark.parametrize(
    ("share", "text"), [(0.5, "50.0%"), (0.9989, "99.9%"), (0.99996, "> 99.9 %"), (-0.25, "25.0%"), (1.0, "100.0%")]
)
def test_a_cost_that_is_left_is_never_all_saved(share, text):
    assert share_text(share) == text


def test_without_an_unsized_choice_there_is_no_saving():
    assert saving_of(plan(offer(purchase=PurchaseOption.SPOT))) is None
