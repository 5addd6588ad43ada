"""From the verdict over a run to the offer of the next one."""

from dataclasses import replace

import pytest

from include.core.contracts.correction import Correction
from include.core.contracts.diagnosis import Diagnosis, Finding, Slowness
from include.core.contracts.measured import Measured
from include.core.contracts.offer import Price, PurchaseOption
from include.core.contracts.plan import Layout
from include.sizing.comparison import Actual
from include.sizing.recommendation import recommend
from tests.support.offers import offer, this_machine
from tests.support.plans import plan, prediction, ranked

GB = 10**9
# Three times what `prediction` expects.
STEP = Measured(steps=100, step_s=0.3, device="T0", peak_device_bytes=None, device_memory_bytes=None)


def said(verdict, *, lost=None, **evidence):
    finding = Finding(kind=verdict, reason="because", fix="do this", evidence=evidence, lost_share=lost)
    return Diagnosis(verdict=verdict, reason="because", fix="do this", findings=(finding,))


def advice(found, diagnosis=None, *, corrections=(), **actual):
    values = {"outcome": "done", "usd": 20.0, "time_s": 7200.0, "lost_s": 0.0, **actual}
    return recommend(plan=found, family="cnn", diagnosis=diagnosis, actual=Actual(**values), corrections=corrections)


def test_a_device_that_is_nearly_full_asks_for_the_cheapest_larger_one():
    larger = ranked(12.0, instance_type="large", accelerator_memory_bytes=40 * GB)
    dearer = ranked(30.0, instance_type="huge", accelerator_memory_bytes=80 * GB)
    refused = ranked(11.0, rejected="quota", instance_type="no", accelerator_memory_bytes=80 * GB)
    found = advice(plan(dearer, larger, refused, ranked(1.0)), said(Slowness.NEAR_OUT_OF_MEMORY))
    assert (found.action, found.instance_type, found.fix) == ("larger GPU", "large", "do this")
    assert found.saving_usd == pytest.approx(-4.0), "it costs a fifth more than this run's 20 USD"
    assert "2026-11-01" in found.price_then


def test_out_of_memory_goes_before_any_verdict():
    larger = ranked(12.0, instance_type="large", accelerator_memory_bytes=40 * GB)
    assert advice(plan(larger), said(Slowness.OK), out_of_memory=True).action == "larger GPU"


def test_a_run_that_was_too_slow_asks_for_one_that_would_have_come_in_time():
    def faster(usd, seconds, name):
        return replace(ranked(instance_type=name), prediction=prediction(usd=usd, time_s=seconds))

    offers = faster(11.0, 3000.0, "a bit faster"), faster(30.0, 900.0, "fastest"), faster(15.0, 1500.0, "fast enough")
    found = advice(plan(*offers), outcome="timed out", time_s=5400.0, measured=STEP)
    assert (found.action, found.instance_type) == ("larger GPU", "fast enough"), "3 times slower: 4500 s of 5400 s"
    assert "at least 3 times the prediction" in found.reason
    late = advice(plan(offers[0]), outcome="timed out", time_s=5400.0, measured=STEP)
    assert (late.action, late.saving_usd) == ("keep", None)
    assert "a later deadline" in late.reason


def test_without_a_larger_offer_the_fallback_layout_is_named():
    fallback = (Layout(precision="bf16", micro_batch=16, accumulation=2),)
    found = advice(plan(fallback_layouts=fallback), said(Slowness.NEAR_OUT_OF_MEMORY))
    assert (found.action, found.micro_batch, found.saving_usd) == ("keep", 16, None)
    assert "no offer of the plan has more memory" in found.reason


def test_full_cpus_ask_for_more_of_them_beside_the_same_device():
    more = ranked(12.0, instance_type="more-cpu", vcpus=16)
    other = ranked(1.0, instance_type="other", vcpus=64, accelerator="T1")
    found = advice(plan(other, more), said(Slowness.DATA_BOUND, lost=0.4, host_cpu=0.95))
    assert (found.action, found.instance_type) == ("more CPU", "more-cpu")


def test_idle_cpus_ask_for_better_loading_and_say_at_most_what_it_saves():
    found = advice(plan(ranked(12.0, vcpus=16)), said(Slowness.DATA_BOUND, lost=0.4, host_cpu=0.3))
    assert (found.action, found.instance_type) == ("fix loading", "g0.test")
    assert found.saving_usd == pytest.approx(8.0)
    assert found.method.startswith("at most")


def test_an_oversized_device_asks_for_a_smaller_one_only_if_that_is_cheaper():
    smaller = ranked(4.0, instance_type="small", accelerator_memory_bytes=8 * GB)
    found = advice(plan(smaller), said(Slowness.OVERSIZED))
    assert (found.action, found.instance_type, found.saving_usd) == ("smaller GPU", "small", pytest.approx(12.0))
    dear = ranked(11.0, instance_type="small", accelerator_memory_bytes=8 * GB)
    assert advice(plan(dear), said(Slowness.OVERSIZED)).action == "keep"


def test_a_slice_where_there_is_one():
    piece = ranked(2.0, instance_type="own/1g.10gb", mig_profile="1g.10gb", accelerator_memory_bytes=10 * GB)
    smaller = ranked(4.0, instance_type="small", accelerator_memory_bytes=8 * GB)
    assert advice(plan(smaller, piece), said(Slowness.OVERSIZED)).action == "MIG slice"
    whole = plan(chosen=offer(mig_profiles=("1g.10gb", "2g.20gb")))
    found = advice(whole, said(Slowness.OVERSIZED))
    assert (found.action, found.saving_usd) == ("MIG slice", None)
    assert "1g.10gb" in found.reason


def test_a_batch_that_is_too_large_is_halved():
    assert advice(plan(), said(Slowness.BATCH_TOO_LARGE)).micro_batch == 16


def test_interruptions_that_cost_more_than_spot_saves():
    price = Price(usd_per_h="0.8", as_of="2026-11-01", source="test", method="quoted")
    spot = offer(purchase=PurchaseOption.SPOT, price=price)
    steady = ranked(10.0, rejected="not admissible")
    often = advice(plan(steady, chosen=spot), said(Slowness.OK), lost_s=2000.0)
    assert (often.action, often.purchase) == ("keep", "on-demand")
    assert "28%" in often.reason
    assert advice(plan(steady, chosen=spot), said(Slowness.OK), lost_s=700.0).purchase == "spot"


def test_this_machine_is_kept():
    found = advice(plan(ranked(5.0, rejected="engine"), chosen=this_machine()), said(Slowness.OVERSIZED))
    assert (found.action, found.instance_type, found.purchase) == ("keep", "this-machine", "local")


@pytest.mark.parametrize(
    ("runs", "spread", "level"),
    [(1, None, "low"), (3, 1.2, "medium"), (3, 2.0, "low"), (12, 1.05, "high"), (12, 1.3, "medium")],
)
def test_confidence_needs_runs_that_agree(runs, spread, level):
    known = Correction(
        family="cnn",
        device="T0",
        precision="bf16",
        memory_ratio=None,
        time_ratio=1.0,
        runs=runs,
        worst_memory_ratio=None,
        as_of="2026-11-30",
        time_spread=spread,
    )
    found = advice(plan(), said(Slowness.OK), corrections=[known]).confidence
    assert (found.level, found.runs, found.spread) == (level, runs, spread)


def test_no_run_is_no_confidence():
    found = advice(plan()).confidence
    assert (found.level, found.runs) == ("low", 0)
