"""The planner's answers to well-known questions, over the bundled catalog and own machines with one and two A100s.

A change of a formula, an assumption or the catalog shows here. When the new answers are right, write what the failing
test prints into ``tests/golden/cases.json``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from include.catalog.offers import load_offers
from include.config.settings import Settings
from include.core.errors import NothingFitsError
from include.sizing.assumptions import USABLE_MEMORY
from include.sizing.plan_text import describe
from include.sizing.planner import make_plan
from tests.support.textbook_demands import GPT2, Model, demand_of, ordered

GOLDEN = Path(__file__).parents[2] / "golden"
TODAY = date(2026, 11, 30)
SETTINGS = Settings(region="world", catalog_file=str(GOLDEN / "own_catalog.yaml"), price_stale_after_days=400)
GB = 1e9


@pytest.fixture(scope="module")
def market():
    return load_offers(SETTINGS, today=TODAY).offers


def plan(offers, needs, *, machines=None, families=None, **question):
    """The plan among own machines by name, or rented families."""
    kept = [o for o in offers if machines is None or o.instance_type in machines]
    if families is not None:
        kept = [o for o in kept if o.instance_type.partition(".")[0] in families]
    order = ordered(**{"batch_size": 256, **question})
    return make_plan(demand=needs, offers=kept, workload=order, settings=SETTINGS, today=TODAY)


def found(made, name):
    """What a plan says of one type on demand in its cheapest place."""
    items = [a for a in made.alternatives if a.offer.instance_type == name and a.prediction and a.prediction.usd]
    return min(items, key=lambda a: a.prediction.usd)


def model(*, state_gb=1.0, saved_gb=0.1, flop=1e12, traffic=1e9):
    """A model by its state at the peak (20 bytes per parameter), saved activations of a sample, and work."""
    parameters = state_gb * GB / 20
    saved = {"off": saved_gb * GB, "selective": saved_gb * GB * 0.5, "block": saved_gb * GB * 0.1}
    return Model(
        parameters=parameters, trainable=parameters, block=parameters / 40, saved=saved, flop=flop, traffic=traffic
    )


def oversized():
    """A job that an engineer would put on 8 x A100-80GB, where it takes 15 % of the memory and 30 % of the time."""
    # 32 samples per accelerator: 1.1 x (2 GB of state + 32 x 0.28 GB) + 1 GB is 15 % of 85.9 GB.
    needs = demand_of(
        model(state_gb=2.0, saved_gb=0.28, flop=1.2e12, traffic=2e9), micro_batch=32, steps=20_000, family="oversized"
    )
    return replace(needs, loader_samples_per_core_s=3.5)


def test_a_p4de_at_15_percent_of_memory_and_30_percent_of_compute(market, golden):
    made = plan([o for o in market if o.engine == "ec2"], oversized())
    p4de = found(made, "p4de.24xlarge")
    device = p4de.offer.accelerator_memory_bytes
    assert p4de.layout.workers == 8
    assert p4de.prediction.peak_device_bytes / device == pytest.approx(0.15, abs=0.02)
    busy = sum(s for part, s in p4de.prediction.step_parts.items() if part != "data") / p4de.prediction.step_s
    assert busy == pytest.approx(0.30, abs=0.03)
    saving = 1 - made.prediction.usd / p4de.prediction.usd
    assert saving > 0.5
    golden("oversized", made, p4de_usd=p4de.prediction.usd, saving=saving)


def test_much_memory_and_moderate_compute_takes_the_smaller_a100_while_it_fits(market, golden):
    needs = demand_of(model(state_gb=160, saved_gb=0.5, traffic=4e10), micro_batch=8, steps=5000, family="much-memory")
    made = plan(market, needs, families=["p4d", "p4de"], compute={"purchase": "on-demand"})
    assert made.offer.accelerator == "A100-40GB"
    assert made.layout.shard > 1
    assert found(made, "p4de.24xlarge").prediction.usd > made.prediction.usd
    golden("a100-40-before-80", made, p4de_usd=found(made, "p4de.24xlarge").prediction.usd)
    # A sample that does not fit into 40 GB, whatever is recomputed, takes the larger one.
    large = demand_of(
        replace(model(state_gb=160, traffic=4e10), saved=dict.fromkeys(("off", "block"), 20 * GB)),
        micro_batch=8,
        steps=5000,
        family="much-memory",
    )
    assert plan(market, large, families=["p4d", "p4de"]).offer.accelerator == "A100-80GB"


def test_compute_bound_takes_the_newer_gpu_that_is_dearer_per_hour_and_cheaper_in_total(market, golden):
    needs = demand_of(model(state_gb=20, flop=2e13, traffic=2e9), micro_batch=32, steps=20_000, family="compute-bound")
    made = plan(market, needs, families=["p4d", "p4de", "p5"], compute={"purchase": "on-demand"})
    older = min((found(made, name) for name in ("p4d.24xlarge", "p4de.24xlarge")), key=lambda a: a.prediction.usd)
    assert made.offer.accelerator == "H100"
    per_gpu = [float(o.price.usd_per_h) / o.accelerators for o in (made.offer, older.offer)]
    assert per_gpu[0] > per_gpu[1]
    assert made.prediction.usd < older.prediction.usd
    gpu_hours = [p.time_s * o.accelerators for p, o in ((made.prediction, made.offer), (older.prediction, older.offer))]
    assert gpu_hours[0] < gpu_hours[1]
    golden("compute-bound", made, older_usd=older.prediction.usd)


STATE_64 = {"micro_batch": 4, "steps": 2000, "family": "state-64"}


def test_64_gb_of_state_on_one_two_and_four_accelerators(market, golden):
    needs = demand_of(model(state_gb=64, saved_gb=0.4, flop=4e12, traffic=8e9), **STATE_64)
    plans = {
        name: plan(market, needs, machines=[name], batch_size=64)
        for name in ("one-a100-80", "two-a100-40", "four-v100-16")
    }
    one, two, four = (plans[name] for name in plans)
    assert one.layout.workers == 1
    assert "communication" not in one.prediction.step_parts
    assert (two.layout.shard, two.layout.offload) == (2, False)
    assert four.layout.shard == 4
    assert four.layout.offload  # 16 GB of state each do not fit into 16 GB: only the host makes room
    for made in (two, four):
        assert made.prediction.step_parts["communication"] > 0
    for made in plans.values():
        assert made.prediction.peak_device_bytes <= USABLE_MEMORY * made.offer.accelerator_memory_bytes
        golden(
            f"64-gb-on-{made.offer.instance_type}",
            made,
            communication_s=made.prediction.step_parts.get("communication"),
        )


def test_four_small_accelerators_are_refused_unless_the_host_or_recomputing_makes_room(market):
    state = demand_of(model(state_gb=64, saved_gb=0.4, flop=4e12, traffic=8e9), **STATE_64)
    names = ["one-a100-80", "four-v100-16-small-host"]
    refused = plan(market, state, machines=names, batch_size=64).alternatives[0].rejected
    assert refused.startswith("no layout fits into 17.18 GB of device memory and 51.54 GB of host memory")
    # 45 GB of state fit; the activations of one sample beside them do only when they are recomputed.
    tight = model(state_gb=45, saved_gb=6.0, flop=4e12, traffic=8e9)
    made = plan(market, demand_of(tight, **STATE_64), machines=names[1:], batch_size=4)
    assert made.layout.activation_checkpointing != "off"
    assert not made.layout.offload
    kept = replace(tight, saved={"off": tight.saved["off"]})
    with pytest.raises(NothingFitsError, match="no layout fits"):
        plan(market, demand_of(kept, **STATE_64), machines=names[1:], batch_size=4)


def test_heavy_decoding_takes_more_cores_with_the_same_gpu(market, golden):
    needs = demand_of(
        model(state_gb=1, saved_gb=0.05, flop=1e11, traffic=1e9), micro_batch=64, steps=20_000, family="d"
    )
    light, heavy = (
        plan(market, replace(needs, loader_samples_per_core_s=rate), families=["g6"], batch_size=64)
        for rate in (10_000.0, 15.0)
    )
    assert light.offer.accelerator == heavy.offer.accelerator == "L4"
    assert light.offer.accelerators == heavy.offer.accelerators == 1
    assert heavy.offer.vcpus > light.offer.vcpus
    assert light.offer.instance_type == "g6.xlarge"
    golden("light-decoding", light)
    golden("heavy-decoding", heavy)


def test_a_small_job_takes_a_partition(market, golden):
    needs = demand_of(
        model(state_gb=0.2, saved_gb=0.01, flop=1e9, traffic=5e6), micro_batch=64, steps=50_000, family="small"
    )
    made = plan(market, needs, batch_size=64)
    assert made.offer.mig_profile is not None
    assert made.layout.workers == 1
    golden("small-job", made, profile=made.offer.mig_profile)
    # A job that fills the whole accelerator does not.
    big = demand_of(model(state_gb=40, saved_gb=1.0, flop=2e13), micro_batch=32, steps=5000, family="big")
    assert plan(market, big).offer.mig_profile is None


def test_where_dated_prices_reverse_the_usual_order_the_report_says_so(market):
    made = plan(
        market, demand_of(GPT2, micro_batch=8, steps=1000, family="gpt2"), families=["p3dn", "p4d"], precision="fp32"
    )
    assert made.offer.accelerator == "A100-40GB"
    [remark] = [text for text in made.remarks if "V100-32GB" in text]
    assert "prices reverse the usual order: A100-40GB costs" in remark
    assert remark.count("as of 2025-11-30") == 2
    assert any(remark in line for line in describe(made))


def test_the_saving_names_both_prices_their_dates_and_the_method(market):
    text = "\n".join(describe(plan([o for o in market if o.engine == "ec2"], oversized())))
    saving = next(line for line in text.splitlines() if line.startswith("Saving: "))
    assert saving.count("USD/h as of 2025-11-30 (quoted)") == 2
    assert "predicted times x price, not measured" in saving


@pytest.fixture(scope="module")
def golden():
    """Collects answers; at the end they are held against the file."""
    answers: dict[str, dict] = {}

    def add(name, made, **more):
        figures = {"usd": made.prediction.usd, "time_s": made.prediction.time_s, **more}
        rounded = {key: float(f"{value:.3g}") if isinstance(value, float) else value for key, value in figures.items()}
        layout = made.layout
        spread = f"{layout.replicate} x {layout.shard} x {layout.tensor}, {layout.micro_batch} x {layout.accumulation}"
        remedies = f"{layout.activation_checkpointing}{', offload' if layout.offload else ''}"
        answers[name] = {
            "plan": f"{made.instances} x {made.offer.name}",
            "layout": f"{spread}, {remedies}",
            **rounded,
        }
        expected = json.loads((GOLDEN / "cases.json").read_text()) if (GOLDEN / "cases.json").exists() else {}
        assert answers[name] == expected.get(name), json.dumps(answers, indent=2)

    return add
