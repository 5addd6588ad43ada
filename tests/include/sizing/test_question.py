"""Questions that only a person can mend, limits on places, weights, quotas."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import ValidationError

from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption
from include.core.errors import NothingFitsError, UserError
from include.sizing.limits import quota_class
from include.sizing.planner import make_plan
from tests.support.offers import demand, offer, order, this_machine

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
POWER = {"idle_w": 50.0, "peak_w": 300.0}


def plan(*offers, needs=None, quota=None, ask=None, **sections):
    return make_plan(
        demand=needs or demand(),
        offers=offers,
        workload=order(**{"engine": "ec2", **sections}),
        settings=Settings(),
        today=date(2026, 11, 30),
        now=NOW,
        quota=quota,
        engine=ask,
    )


def test_a_deadline_in_the_past_is_one_clear_error():
    with pytest.raises(UserError, match=r"the deadline has passed.*limits\.deadline.*2 hours before") as caught:
        plan(offer(), limits={"deadline": (NOW - timedelta(hours=2)).isoformat()})
    assert "\n" not in str(caught.value)


def test_a_deadline_ahead_counts_in_hours_and_the_nearer_one_holds():
    heavy = demand(flop_per_sample=2e12)  # hours
    for limits in (
        {"deadline": (NOW + timedelta(hours=1)).isoformat()},
        {"deadline": (NOW + timedelta(hours=1)).isoformat(), "deadline_h": 100},
        {"deadline": (NOW + timedelta(hours=100)).isoformat(), "deadline_h": 1},
    ):
        with pytest.raises(NothingFitsError, match="deadline_h from 1 to "):
            plan(offer(), needs=heavy, limits=limits)
    assert plan(offer(), needs=heavy, limits={"deadline": (NOW + timedelta(hours=100)).isoformat()}).instances == 1


@pytest.mark.parametrize("hours", [0, -1])
def test_a_deadline_that_is_no_time_at_all_is_refused_with_the_file(hours):
    with pytest.raises(ValidationError, match="greater than 0"):
        plan(offer(), limits={"deadline_h": hours})


def test_a_deadline_without_an_offset_is_refused():
    with pytest.raises(ValidationError, match="timezone"):
        plan(offer(), limits={"deadline": "2027-01-01T00:00:00"})


def test_an_unknown_region_is_one_clear_error():
    with pytest.raises(
        UserError, match=r"unknown region.*compute\.regions.*eu-nroth-1.*did you mean eu-north-1"
    ) as caught:
        plan(offer(), compute={"regions": ["eu-nroth-1"]})
    assert "\n" not in str(caught.value)


def test_an_unknown_family_or_engine_is_one_clear_error():
    with pytest.raises(UserError, match=r"unknown instance family.*g1"):
        plan(offer(), compute={"families": ["g1"]})
    with pytest.raises(UserError, match=r"unknown engine.*slurm"):
        plan(offer(), ask="slurm")


def test_regions_and_families_hold_and_say_what_to_relax():
    cheap, allowed = offer(usd="0.1"), offer(instance_type="p0.test", region="eu-north-1", usd="9")
    made = plan(cheap, allowed, compute={"regions": ["eu-north-1"], "families": ["p0"]})
    assert made.offer is allowed
    assert made.alternatives[0].rejected == (
        "compute.regions allows eu-north-1 and not us-east-1; compute.families allows p0 and not g0"
    )
    with pytest.raises(NothingFitsError, match=r"add us-east-1 to compute\.regions"):
        plan(cheap, compute={"regions": ["eu-north-1"]})


def test_this_machine_is_where_it_is():
    assert plan(this_machine(), engine="local", compute={"regions": ["eu-north-1"]}).offer.engine == "local"


def test_a_quota_holds_by_class_of_instances():
    small, large = (
        offer(instance_type="g5.small", usd="9", vcpus=8),
        offer(instance_type="p5.large", usd="1", vcpus=192),
    )
    assert plan(small, large).offer is large
    made = plan(small, large, quota={"p": 96})
    assert made.offer is small
    assert "quota of p instances is 96 vCPUs, 1 x p5.large take 192" in made.alternatives[0].rejected
    with pytest.raises(NothingFitsError, match="raise the quota of p instances from 96 to 192 vCPUs"):
        plan(large, quota={"p": 96})


@pytest.mark.parametrize(
    ("name", "kind"), [("p4de.24xlarge", "p"), ("gr6.4xlarge", "g"), ("c7i.large", "standard"), ("trn1.2xlarge", "trn")]
)
def test_quota_classes(name, kind):
    assert quota_class(name) == kind


def test_weights_say_what_an_hour_is_worth():
    heavy = demand(flop_per_sample=2e12)
    slow = offer(instance_type="slow", usd="1", accelerator_tflops={"fp32": 5.0}, **POWER)
    fast = offer(instance_type="fast", usd="5", accelerator_tflops={"fp32": 20.0}, **POWER)
    for hour, expected in ((0.01, "slow"), (10.0, "fast")):
        weighted = {"objective": "weighted", "weights": {"cost": 1, "time": hour}}
        assert plan(slow, fast, needs=heavy, compute=weighted).offer.instance_type == expected
    with pytest.raises(ValidationError, match="objective: weighted"):
        plan(slow, compute={"objective": "weighted"})
    with pytest.raises(ValidationError, match="at least one weight above 0"):
        plan(slow, compute={"objective": "weighted", "weights": {}})


def test_the_best_anywhere_stands_beside_the_one_that_can_be_launched():
    costly, cheap = this_machine(usd="90"), offer(usd="0.1")
    made = plan(costly, cheap, engine="local")
    assert made.offer is costly
    assert made.anywhere.offer is cheap
    assert made.anywhere.rejected == "engine ec2 is not configured"
    anywhere = plan(costly, cheap, engine="local", ask="any")
    assert anywhere.offer is cheap
    assert anywhere.anywhere is None
    assert {item.offer.name for item in made.front} >= {costly.name, cheap.name}


def test_when_nothing_fits_here_the_error_names_what_would_do_elsewhere():
    with pytest.raises(
        NothingFitsError, match=r"g0\.test/on-demand/us-east-1 would do, but its engine ec2 is not configured"
    ):
        plan(this_machine(usd="900"), offer(), engine="local", limits={"budget_usd": 0.5})


def test_several_instances_meet_a_deadline_that_one_does_not():
    from tests.support.textbook_demands import GPT2, demand_of

    needs = demand_of(GPT2, micro_batch=8, steps=1000, family="gpt2")
    rented = offer(
        accelerators=8,
        accelerator_memory_bytes=80 * 10**9,
        accelerator_tflops={"fp32": 20.0},
        interconnect_bytes_per_s=3e11,
        network_bytes_per_s=5e10,
        ram_bytes=10**12,
    )
    alone = plan(rented, needs=needs, training={"epochs": 1, "batch_size": 64})
    assert alone.instances == 1
    limits = {"deadline_h": 0.7 * alone.prediction.time_s / 3600}
    spread = plan(rented, needs=needs, training={"epochs": 1, "batch_size": 64}, limits=limits)
    assert spread.instances == 2
    assert spread.layout.workers == 16
    assert spread.prediction.usd > alone.prediction.usd


def test_fallbacks_take_less_memory_each_time_on_the_same_workers():
    from include.sizing.demand_table import memory_of
    from tests.support.textbook_demands import GPT2, demand_of

    needs = demand_of(GPT2, micro_batch=8, steps=1000, family="gpt2")
    made = plan(offer(accelerator_memory_bytes=24 * 10**9), needs=needs, training={"epochs": 1, "batch_size": 64})
    sizes = [memory_of(needs, layout).total_bytes for layout in (made.layout, *made.fallback_layouts)]
    assert len(sizes) >= 3
    assert all(later <= 0.9 * earlier for earlier, later in itertools.pairwise(sizes))
    assert {layout.workers for layout in made.fallback_layouts} == {made.layout.workers}


def test_reserved_capacity_is_for_critical_runs_too():
    steady = offer(purchase=PurchaseOption.RESERVED, usd="0.2")
    assert plan(steady, offer(), criticality="critical").offer is steady


def test_a_model_too_large_for_everything_names_the_nearest_device_and_how_much_is_missing():
    small = offer(instance_type="small", accelerator_memory_bytes=5 * 10**8)
    larger = offer(instance_type="larger", accelerator_memory_bytes=10**9)
    with pytest.raises(
        NothingFitsError, match=r"nearest is larger/.*needs 1.01 GB of device memory, has 1.00 GB"
    ) as caught:
        plan(small, larger)
    advised = float(re.search(r"devices of ([\d.]+) GB", str(caught.value))[1])
    assert plan(offer(accelerator_memory_bytes=int(advised * 1.001e9))).instances == 1
