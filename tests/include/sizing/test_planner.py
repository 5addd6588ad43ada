"""The planner: choice, reasons, limits."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from datetime import date

import pytest

from include.config.settings import REPO, Settings
from include.core.contracts.offer import Price, PurchaseOption
from include.core.contracts.plan import Objective
from include.core.errors import NothingFitsError
from include.core.json_codec import from_json, to_json
from include.sizing.planner import Plan, make_plan
from tests.support.offers import demand, offer, order, this_machine
from tests.support.textbook_demands import demand_of, transformer

TODAY = date(2026, 11, 30)
SPOT = PurchaseOption.SPOT
POWER = {"idle_w": 50.0, "peak_w": 300.0}


def plan(*offers, needs=None, today=TODAY, **sections):
    return make_plan(
        demand=needs or demand(), offers=offers, workload=order(**sections), settings=Settings(), today=today
    )


def rejected(made, name):
    return next(a.rejected for a in made.alternatives if a.offer.instance_type == name)


def test_only_the_configured_engine_is_chosen_and_others_show_what_it_would_have_been():
    made = plan(this_machine(), offer(usd="0.0001"))
    assert made.offer.instance_type == "this-machine"
    (other,) = made.alternatives
    assert other.rejected == "engine ec2 is not configured"
    assert other.prediction.usd < made.prediction.usd


def test_the_objective_decides():
    slow = offer(instance_type="slow", usd="0.1", accelerator_tflops={"fp32": 0.001}, **POWER)
    fast = offer(instance_type="fast", usd="900", region="us-east-1", **POWER)
    clean = offer(instance_type="clean", usd="500", region="eu-north-1", accelerator_tflops={"fp32": 0.05}, **POWER)
    for objective, expected in (("cost", "slow"), ("time", "fast"), ("carbon", "clean")):
        made = plan(slow, fast, clean, engine="ec2", compute={"objective": objective})
        assert made.offer.instance_type == expected, objective
        assert made.objective is Objective(objective)


def test_without_a_price_it_is_listed_but_not_chosen_by_cost():
    made = plan(offer(usd="90"), offer(instance_type="unpriced", usd=None), engine="ec2")
    assert made.offer.instance_type == "g0.test"
    assert rejected(made, "unpriced") == "no price: listed, never chosen by cost"


def test_without_a_price_it_may_be_chosen_by_time_unless_there_is_a_budget():
    fast = offer(instance_type="fast", usd=None)
    slow = offer(instance_type="slow", accelerator_tflops={"fp32": 0.01})
    assert plan(fast, slow, engine="ec2", compute={"objective": "time"}).offer.instance_type == "fast"
    made = plan(fast, slow, engine="ec2", compute={"objective": "time"}, limits={"budget_usd": 100})
    assert made.offer.instance_type == "slow"
    assert rejected(made, "fast") == "limits.budget_usd 100 cannot be checked: the figure is unknown"


def test_unknown_carbon_is_never_chosen_by_carbon():
    made = plan(this_machine(), offer(), compute={"objective": "carbon"})
    assert "carbon unknown" in rejected(made, "g0.test")


def test_unknown_hardware_has_no_prediction():
    made = plan(this_machine(), offer(accelerator="Z9", accelerator_tflops={}))
    (other,) = made.alternatives
    assert other.prediction is None
    assert other.rejected.startswith("time unknown: no datasheet figures for Z9 in fp32")


def test_memory_is_checked_with_margin_on_device_and_host():
    tight = demand().memory.total_bytes * 1.10 + 10**9
    small = offer(instance_type="small", accelerator_memory_bytes=int(tight / 0.92) - 1000)
    enough = offer(instance_type="enough", accelerator_memory_bytes=int(tight / 0.92) + 1000, usd="99")
    poor = offer(instance_type="poor", ram_bytes=4 * 10**8)
    made = plan(small, enough, poor, engine="ec2")
    assert made.offer.instance_type == "enough"
    assert rejected(made, "small").startswith("needs 1.01 GB of device memory")
    assert "host memory" in rejected(made, "poor")


def test_normal_runs_take_spot_where_it_is_cheaper_with_its_interruptions():
    made = plan(offer(usd="0.3", purchase=SPOT), offer(usd="1.0"), engine="ec2")
    assert made.offer.purchase is SPOT
    assert made.rule.startswith("normal: whichever is best by cost with expected interruptions")
    assert made.rule.endswith("taken: spot")
    assert made.fallback_offer == "g0.test/on-demand/us-east-1"
    assert made.alternatives[0].rejected is None
    # Hardly cheaper per hour, but interrupted: the steady one costs less in total.
    heavy, rough = demand(flop_per_sample=2e13), offer(usd="0.99", purchase=SPOT, interruptions_per_h=2.0)
    assert plan(rough, offer(usd="1.0"), needs=heavy, engine="ec2").offer.purchase is not SPOT


def test_normal_runs_go_on_demand_when_the_deadline_does_not_allow_spot():
    heavy = demand(flop_per_sample=2e12)  # hours, so that interruptions cost minutes
    spot, steady = offer(usd="0.3", purchase=SPOT), offer(usd="1.0")
    calm = plan(steady, needs=heavy, engine="ec2").prediction.time_s / 3600
    rough = plan(spot, needs=heavy, engine="ec2", criticality="exploratory").prediction.time_s / 3600
    made = plan(spot, steady, needs=heavy, engine="ec2", limits={"deadline_h": (calm + rough) / 2})
    assert made.offer.purchase is PurchaseOption.ON_DEMAND
    assert made.rule.endswith("taken: on-demand")


def test_critical_runs_never_take_spot():
    made = plan(offer(usd="0.3", purchase=SPOT), offer(usd="1.0"), engine="ec2", criticality="critical")
    assert made.offer.purchase is PurchaseOption.ON_DEMAND


def test_exploratory_runs_take_nothing_but_spot():
    with pytest.raises(NothingFitsError, match="exploratory: only spot"):
        plan(offer(), engine="ec2", criticality="exploratory")


def test_the_rule_for_this_machine_says_that_nothing_is_purchased():
    assert "nothing is purchased" in plan(this_machine()).rule


def test_an_old_price_is_named():
    old = offer(price=Price(usd_per_h="1", as_of="2025-11-30", source="x", method="quoted"))
    assert "365 days old" in plan(old, engine="ec2").rule
    assert "days old" not in plan(offer(), engine="ec2").rule


@pytest.mark.parametrize(
    ("limits", "advice"),
    [
        ({"deadline_h": 1e-4}, "raise limits.deadline_h from 0.0001 to "),
        ({"budget_usd": 1e-6}, "raise limits.budget_usd from 1e-06 to "),
        ({"max_gco2e": 1e-3}, "raise limits.max_gco2e from 0.001 to "),
    ],
)
def test_when_nothing_keeps_the_limits_the_error_names_the_nearest_and_how_much_to_relax(limits, advice):
    with pytest.raises(NothingFitsError, match=advice) as caught:
        plan(this_machine(), offer(), limits=limits)
    assert "nearest is this-machine/local/local" in str(caught.value)


def test_following_the_advice_makes_it_fit():
    with pytest.raises(NothingFitsError) as caught:
        plan(this_machine(), limits={"deadline_h": 1e-4})
    advised = float(str(caught.value).split(" to ")[1].split()[0])
    assert plan(this_machine(), limits={"deadline_h": advised}).offer.engine == "local"


def test_the_nearest_is_the_one_that_exceeds_least():
    with pytest.raises(NothingFitsError, match="nearest is b/"):
        plan(
            offer(instance_type="a", usd="50"),
            offer(instance_type="b", usd="5"),
            offer(instance_type="c", usd="500"),
            engine="ec2",
            limits={"budget_usd": 0.001},
        )


def test_too_large_for_everything_says_so():
    with pytest.raises(NothingFitsError, match=r"no offer of engine local fits.*host memory"):
        plan(this_machine(), needs=demand(host_ram_bytes=10**12))


def test_no_offers_at_all():
    with pytest.raises(NothingFitsError, match="no offers at all"):
        plan()


def test_the_naive_choice_is_the_largest_accelerator_on_demand_where_it_is_cheapest():
    big = {"accelerators": 8, "accelerator_memory_bytes": 80 * 10**9}
    made = plan(
        this_machine(),
        offer(),
        offer(instance_type="big", usd="60", region="eu-central-1", **big),
        offer(instance_type="big", usd="55", **big),
        offer(instance_type="big", usd=None, purchase=SPOT, **big),
        offer(instance_type="bigger", usd=None, accelerators=16, accelerator_memory_bytes=80 * 10**9),
    )
    assert made.naive.offer.name == "big/on-demand/us-east-1"
    assert made.naive.prediction.usd == pytest.approx(55 * made.naive.prediction.time_s / 3600)


def test_the_naive_choice_is_one_that_regions_families_and_quota_allow_and_names_the_limits_that_it_breaks():
    big = {"accelerators": 8, "accelerator_memory_bytes": 80 * 10**9, "vcpus": 192}
    market = (
        this_machine(),
        offer(instance_type="p9.big", usd="60", **big),
        offer(instance_type="g6.far", usd="60", region="us-west-2", **big),
        offer(instance_type="g6.near", usd="3", region="eu-north-1"),
        offer(instance_type="g6.small", usd="1", region="eu-north-1", accelerator_memory_bytes=8 * 10**9),
    )
    limits = {"limits": {"budget_usd": 0.01}}
    assert plan(*market, **limits).naive.offer.instance_type in ("p9.big", "g6.far")
    bound = plan(*market, compute={"regions": ["eu-north-1"], "families": ["g6"]}, **limits).naive
    assert bound.offer.name == "g6.near/on-demand/eu-north-1"
    assert bound.rejected.startswith("engine ec2 is not configured; limits.budget_usd is 0.01, predicted 0.05")
    quota = make_plan(
        demand=demand(), offers=market, workload=order(), settings=Settings(), today=TODAY, quota={"p": 96, "g": 32}
    )
    assert quota.naive.offer.instance_type == "g6.near"


def test_fewer_epochs_are_advised_only_where_they_can_help():
    with pytest.raises(NothingFitsError) as start_alone_is_too_long:
        plan(this_machine(), limits={"deadline_h": 7 / 3600})
    with pytest.raises(NothingFitsError) as half:
        plan(this_machine(), limits={"deadline_h": 12 / 3600})
    assert "fewer epochs" not in str(start_alone_is_too_long.value)
    assert "or train for fewer epochs" in str(half.value)


def test_a_slower_step_with_more_shards_wins_where_checkpoints_are_large():
    small = demand_of(
        transformer(layers=4, hidden=256, vocabulary=1000, tokens=128), micro_batch=64, steps=50, family="small"
    )
    where = offer(accelerators=8, interconnect_bytes_per_s=1e7, ram_bytes=10**15)
    light, heavy = (
        plan(
            where,
            needs=dataclasses.replace(small, checkpoint_bytes=size),
            engine="ec2",
            compute={"objective": "time"},
        )
        for size in (10**6, 10**13)
    )
    assert (light.layout.workers, heavy.layout.shard) == (1, 8)
    assert light.prediction.step_s < heavy.prediction.step_s
    assert heavy.prediction.time_parts["saves"] == pytest.approx(0.1 + 1e13 / 8 / 2e9)


def test_without_a_priced_accelerator_there_is_no_naive_choice():
    assert plan(this_machine(), offer(usd=None)).naive is None


def test_the_layout_covers_the_batch():
    made = plan(this_machine(), needs=demand(micro_batch=24), training={"epochs": 30, "batch_size": 64})
    assert (made.layout.micro_batch, made.layout.accumulation) == (24, 3)


def test_a_plan_survives_the_store():
    made = plan(this_machine(), offer(), offer(instance_type="x", accelerator_tflops={}))
    assert from_json(Plan, to_json(made)) == made


def test_the_order_of_offers_does_not_matter():
    offers = [this_machine(), *(offer(instance_type=f"t{i}", usd=str(1 + i)) for i in range(4))]
    assert plan(*offers) == plan(*reversed(offers))


def test_offers_are_not_changed():
    mine = this_machine()
    copy = dataclasses.replace(mine)
    assert plan(mine).offer == copy


def test_planning_imports_nothing_heavy():
    code = (
        "import sys, include.sizing.planner, include.catalog.loader, include.catalog.local, include.carbon.meter\n"
        "print([m for m in ('torch', 'pandas', 'codecarbon', 'numpy', 'boto3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
