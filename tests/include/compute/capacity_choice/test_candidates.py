"""From a plan to what may be launched instead of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from include.compute.capacity_choice.candidates import plan_candidates, type_candidates
from include.compute.capacity_choice.question import Strategy
from include.compute.capacity_choice.terms import may_use_on_demand, strategy_of, training_terms
from include.config.workload import Workload
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Layout, Plan, RankedOffer
from tests.support.jobs import workload
from tests.support.offers import offer
from tests.support.plans import plan, prediction

LAYOUT = Layout(precision="bf16", micro_batch=32)
SPOT = PurchaseOption.SPOT


def spot(kind: str = "g6.xlarge", zone: str | None = None, **fields: Any) -> Offer:
    return offer(instance_type=kind, purchase=SPOT, zone=zone, usd="0.30", **fields)


def other(found: Offer, *, layout: Layout | None = LAYOUT, instances: int = 1, rejected: str | None = None):
    return RankedOffer(offer=found, prediction=prediction(), rejected=rejected, layout=layout, instances=instances)


def names(found: Plan, **fields: Any) -> list[str]:
    candidates = plan_candidates(found, **{"on_demand_too": True, **fields})
    return [f"{c.instance_type}/{c.purchase}/{c.zone or c.region}" for c in candidates]


def test_the_chosen_offer_comes_first_then_what_does_as_well():
    found = plan(other(spot("g5.xlarge")), other(spot(zone="us-east-1b")), chosen=spot(zone="us-east-1a"))
    assert names(found) == ["g6.xlarge/spot/us-east-1a", "g5.xlarge/spot/us-east-1", "g6.xlarge/spot/us-east-1b"]


def test_another_layout_or_number_of_instances_does_not_do():
    wider = replace(LAYOUT, shard=2)
    found = plan(
        other(spot("g5.xlarge"), layout=wider), other(spot("g6e.xlarge"), instances=2), other(spot("g4dn.xlarge")),
        chosen=spot(),
    )  # fmt: skip
    assert names(found) == ["g6.xlarge/spot/us-east-1", "g4dn.xlarge/spot/us-east-1"]


def test_what_was_rejected_or_is_of_another_engine_does_not_do():
    found = plan(
        other(spot("g5.xlarge"), rejected="too slow"), other(offer(engine="slurm", instance_type="own")), chosen=spot()
    )
    assert names(found) == ["g6.xlarge/spot/us-east-1"]


def test_the_front_counts_too_where_the_best_of_an_offer_has_another_layout():
    found = plan(other(spot("g5.xlarge"), instances=4), chosen=spot(), front=(other(spot("g5.xlarge")),))
    assert names(found) == ["g6.xlarge/spot/us-east-1", "g5.xlarge/spot/us-east-1"]


def test_on_demand_twins_come_last_whatever_spoke_against_them():
    twin = other(offer(instance_type="g6.xlarge", usd="0.80"), rejected="costs too much")
    found = plan(twin, other(spot("g5.xlarge")), chosen=spot())
    assert names(found)[-1] == "g6.xlarge/on-demand/us-east-1"
    assert not any("on-demand" in name for name in names(found, on_demand_too=False))


def test_a_candidate_carries_price_power_grid_and_what_quotas_count():
    chosen = spot(idle_w=60.0, peak_w=200.0)
    [candidate, _] = plan_candidates(
        plan(other(offer(instance_type="g6.xlarge", usd="0.80")), chosen=chosen), on_demand_too=True
    )
    assert (candidate.usd_per_h, candidate.list_usd_per_h) == ("0.30", "0.80")
    assert (candidate.idle_w, candidate.peak_w) == (60.0, 200.0)
    assert candidate.gco2e_per_kwh is not None
    assert (candidate.vcpus, candidate.accelerators) == (4, 1)
    assert candidate.price == {"price_as_of": "2026-11-01", "price_source": "test", "price_method": "quoted"}


def test_this_machine_and_partitions_have_no_candidates():
    assert names(plan(chosen=offer(engine="local"))) == []
    assert names(plan(chosen=spot(mig_profile="1g.10gb"))) == []


def test_only_regions_that_can_be_launched_in():
    found = plan(other(spot("g5.xlarge", region="eu-north-1")), chosen=spot())
    assert names(found, regions=("us-east-1",)) == ["g6.xlarge/spot/us-east-1"]


def test_a_type_by_name_is_spot_by_price_then_on_demand():
    dear, cheap = spot(zone="us-east-1a"), replace(spot(zone="us-east-1b"), price=offer(usd="0.20").price)
    listed = (offer(instance_type="g6.xlarge", usd="0.80"), dear, cheap, spot("g5.xlarge"))
    found = type_candidates(listed, instance_type="g6.xlarge", region="us-east-1")
    assert [(c.purchase, c.zone) for c in found] == [
        ("spot", "us-east-1b"), ("spot", "us-east-1a"), ("on-demand", None),
    ]  # fmt: skip
    steady = type_candidates(listed, instance_type="g6.xlarge", region="us-east-1", spot_too=False)
    assert [c.purchase for c in steady] == ["on-demand"]


def order(**sections: Any) -> Workload:
    criticality = sections.pop("criticality", "normal")
    return workload("digits", criticality=criticality, **sections)


@pytest.mark.parametrize(
    ("sections", "strategy", "on_demand"),
    [
        ({"limits": {"deadline_h": None}}, Strategy.GREEDY, True),
        ({"limits": {"deadline_h": 4}}, Strategy.DEADLINE_AWARE, True),
        ({"criticality": "critical", "limits": {"deadline_h": 4}}, Strategy.ON_DEMAND, True),
        ({"criticality": "exploratory", "limits": {"deadline_h": None}}, Strategy.GREEDY, False),
        ({"criticality": "exploratory", "limits": {"deadline_h": 4}}, Strategy.DEADLINE_AWARE, True),
        ({"compute": {"purchase": "spot"}, "limits": {"deadline_h": 4}}, Strategy.DEADLINE_AWARE, False),
        ({"compute": {"purchase": "on-demand"}}, Strategy.ON_DEMAND, True),
        ({"compute": {"recovery": "uniform-progress"}, "limits": {"deadline_h": 4}}, Strategy.UNIFORM_PROGRESS, True),
    ],
)
def test_the_strategy_goes_by_criticality_and_deadline(sections: dict, strategy: Strategy, on_demand: bool):
    found = order(**sections)
    assert strategy_of(found)[0] is strategy
    assert may_use_on_demand(found) is on_demand


def test_on_demand_recovery_of_spot_alone_is_refused():
    with pytest.raises(ValueError, match="recovery: on-demand"):
        order(compute={"purchase": "spot", "recovery": "on-demand"})


def test_terms_come_from_the_prediction():
    parts = {"start": 60.0, "steps": 3000.0, "validation": 100.0, "saves": 30.0, "interruptions": 500.0}
    found = plan(chosen=spot(), prediction=prediction(time_parts=parts, step_s=1.0), checkpoint_every_steps=100)
    terms = training_terms(
        order(limits={"deadline_h": 2}), found, started_at="2026-11-30T10:00:00+00:00", checkpoint_bytes=5,
        home_region="us-east-1",
    )  # fmt: skip
    assert terms.work_s == pytest.approx(1.05 * 3130)
    assert (terms.interval_s, terms.save_s, terms.start_s) == (100.0, 1.0, 60.0)
    assert terms.deadline_in_s == 7200
    assert terms.started_s is not None


def test_what_costs_far_more_than_the_chosen_hardware_does_not_do():
    twin = other(offer(instance_type="g6.xlarge", usd="0.80"))
    large = spot("p5.48xlarge")
    dear = replace(large, price=offer(usd="0.90").price)
    steady = other(offer(instance_type="p5.48xlarge", usd="1.70"))
    found = plan(other(dear), other(spot("g5.xlarge")), twin, steady, chosen=spot())
    assert names(found) == ["g6.xlarge/spot/us-east-1", "g5.xlarge/spot/us-east-1", "g6.xlarge/on-demand/us-east-1"]
