"""Predictions of one training on one offer."""

from __future__ import annotations

import pytest

from include.config.settings import Settings
from include.core.contracts.correction import Correction
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Layout
from include.sizing.assumptions import assume
from include.sizing.judging import on_demand_prices
from include.sizing.prediction import Forecaster
from include.sizing.steps import StepTimes
from tests.support.offers import demand, offer, order, this_machine

ASSUMED = assume(Settings(region="world"))


class Answer:
    def __init__(self, where, *, needs, beside, corrections, sections):
        needs = needs or demand()
        workload = order(**{"training": {"epochs": 30, "batch_size": 64}, **sections})
        times = StepTimes(needs, workload, corrections)
        twins = on_demand_prices(beside)
        forecaster = Forecaster(demand=needs, workload=workload, assumed=ASSUMED, on_demand=twins)
        learned = times.correction_of(where)
        step = times.best(where, 1)
        course = forecaster.course(
            step=step,
            ratio=learned.time_ratio if learned else 1.0,
            engine=where.engine,
            rate_per_h=ASSUMED.rate_of(where),
        )
        option = forecaster.option(where, 1, step, course)
        self.course_of = lambda layout: forecaster.course(
            step=step._replace(layout=layout), ratio=1.0, engine=where.engine, rate_per_h=1e-9
        )
        self.prediction = forecaster.prediction(option, learned)
        self.checkpoint_every_steps = course.every


def predict(where, *, needs=None, beside=(), corrections=(), **sections):
    return Answer(where, needs=needs, beside=beside, corrections=corrections, sections=sections)


def test_this_machine():
    found = predict(this_machine())
    # 600 steps of 20 ms, validation of 0.15 / 0.65 rows per row at a third of a step, a save per 5 epochs of 20
    # steps (0.1 s is 5 % of 100 steps), 8 s start
    parts = {"start": 8.0, "steps": 12.0, "validation": 12 * 0.15 / 0.65 / 3, "saves": 0.6}
    figures = found.prediction
    assert found.checkpoint_every_steps == 100
    assert figures.time_s == pytest.approx(sum(parts.values()), rel=1e-3)
    assert {name: figures.time_parts[name] for name in parts} == pytest.approx(parts)
    assert sum(figures.time_parts.values()) == pytest.approx(figures.time_s)
    assert figures.usd == pytest.approx(0.012 * figures.time_s / 3600)
    # one of two cores busy: 20 W; idle power of a shared machine is not counted
    assert figures.kwh == pytest.approx(20 * figures.time_s / 3.6e6)
    assert figures.gco2e == pytest.approx(figures.kwh * 475)
    assert figures.host_bytes == demand().host_ram_bytes
    assert "cost of the whole machine at its peak power for all of the time" in figures.method
    assert figures.grid.startswith("PLIMSOLL_REGION world: 475 gCO2e/kWh, ")
    assert "average of 2018 (IEA" in figures.grid
    assert "training only" in figures.method
    assert "measured on this machine" in figures.method


def test_a_rented_type_without_stated_power_has_unknown_carbon():
    figures = predict(offer(usd="3.6")).prediction
    assert figures.usd == pytest.approx(0.001 * figures.time_s)
    assert figures.kwh is None
    assert figures.gco2e is None
    assert "uncalibrated roofline" in figures.method


def test_a_rented_type_with_stated_power_pays_for_all_of_it():
    figures = predict(offer(idle_w=100.0, peak_w=100.0)).prediction
    assert figures.kwh == pytest.approx(100 * figures.time_s / 3.6e6)
    assert figures.gco2e == pytest.approx(figures.kwh * ASSUMED.gco2e_per_kwh["us-east-1"])


def test_without_a_price_the_cost_is_unknown_not_zero():
    figures = predict(offer(usd=None)).prediction
    assert figures.usd is None
    assert figures.time_s > 0


def test_memory_has_its_margin_and_a_gpu_its_context():
    total = demand().memory.total_bytes
    for where, expected in ((this_machine(), round(1.10 * total)), (offer(), round(1.10 * total) + 10**9)):
        figures = predict(where).prediction
        assert figures.peak_device_bytes == expected
        assert figures.traced_peak_bytes == total


def test_what_earlier_runs_taught_replaces_the_margin_and_scales_the_time():
    taught = Correction(
        family="unknown",
        device="T0",
        precision="fp32",
        memory_ratio=1.1,
        time_ratio=2.0,
        runs=3,
        worst_memory_ratio=1.2,
        as_of="2026-11-01",
    )
    heavy = demand(flop_per_sample=1e12)
    plain, learned = (predict(offer(), needs=heavy, corrections=c).prediction for c in ((), (taught,)))
    assert learned.peak_device_bytes == round(1.2 * 1.05 * heavy.memory.total_bytes) + 10**9
    assert learned.time_s == pytest.approx(2 * plain.time_s, rel=0.02)
    assert learned.step_s == plain.step_s
    assert "corrected by 3 runs" in learned.method
    other = predict(offer(accelerator="T9"), needs=heavy, corrections=(taught,)).prediction
    assert other.time_s == plain.time_s


def test_spot_takes_longer_than_on_demand():
    long = demand(flop_per_sample=1e12)
    spot, steady = (predict(offer(purchase=p), needs=long) for p in (PurchaseOption.SPOT, PurchaseOption.ON_DEMAND))
    assert spot.prediction.time_s > steady.prediction.time_s
    assert spot.checkpoint_every_steps <= steady.checkpoint_every_steps


def test_the_workload_may_fix_the_checkpoint_interval():
    training = {"epochs": 30, "batch_size": 64, "checkpoint_every_steps": 7}
    assert predict(this_machine(), training=training).checkpoint_every_steps == 7


def test_spot_pays_for_the_rest_on_demand_when_no_capacity_comes_back():
    long = demand(flop_per_sample=1e13)
    spot = offer(usd="0.3", purchase=PurchaseOption.SPOT, interruptions_per_h=0.2)
    alone, beside = (predict(spot, needs=long, beside=b).prediction for b in ((), (offer(usd="1.0"),)))
    assert alone.usd == pytest.approx(0.3 * alone.time_s / 3600)
    assert alone.time_s == beside.time_s
    assert alone.usd < beside.usd < 1.0 * beside.time_s / 3600
    assert "the rest is on demand" in beside.method
    assert beside.interruptions == pytest.approx(0.2 * beside.time_s / 3600, rel=0.05)


def test_a_machine_that_waits_for_data_takes_less_than_its_peak_power():
    slow = demand(flop_per_sample=1e12, loader_samples_per_core_s=1.0)
    free = demand(flop_per_sample=1e12)
    where = offer(idle_w=50.0, peak_w=400.0)
    bound, busy = (predict(where, needs=needs).prediction for needs in (slow, free))
    active = busy.time_parts["steps"] + busy.time_parts["validation"]
    assert busy.kwh == pytest.approx((50 * (busy.time_s - active) + 400 * active) / 3.6e6, rel=1e-3)
    assert 50 < bound.kwh * 3.6e6 / bound.time_s < 400
    assert bound.step_parts["data"] == pytest.approx(64 / 3)  # one of four cores drives the accelerator


def test_a_rented_machine_is_at_idle_power_while_it_starts():
    figures = predict(offer(idle_w=20.0, peak_w=100.0)).prediction
    parts = figures.time_parts
    assert parts["start"] == 60.0
    waiting = parts["start"] + parts["saves"]
    assert figures.kwh == pytest.approx((20 * waiting + 100 * (parts["steps"] + parts["validation"])) / 3.6e6, rel=1e-3)
    assert figures.kwh < 0.3 * 100 * figures.time_s / 3.6e6


def test_saves_that_take_longer_than_epochs_do_not_decide_the_time():
    heavy = demand(checkpoint_bytes=120 * 10**9)
    found = predict(offer(ram_bytes=10**12), needs=heavy)
    assert found.prediction.time_parts["saves"] == pytest.approx(60.1)  # one, at the end
    assert found.checkpoint_every_steps == 600


def test_a_checkpoint_is_divided_by_the_shards_and_not_by_replicas():
    heavy = demand(checkpoint_bytes=120 * 10**9, tensor_share=0.5)
    answer = predict(offer(ram_bytes=10**12), needs=heavy)
    saves = [
        answer.course_of(Layout(**mesh)).parts["saves"]
        for mesh in ({}, {"replicate": 8}, {"shard": 8}, {"tensor": 2}, {"shard": 2, "tensor": 2})
    ]
    assert saves == pytest.approx([60.1, 60.1, 7.6, 45.1, 22.6])


def test_an_own_interval_longer_than_the_training_still_saves_at_the_end():
    training = {"epochs": 30, "batch_size": 64, "checkpoint_every_steps": 10_000}
    assert predict(this_machine(), training=training).prediction.time_parts["saves"] == pytest.approx(0.1)
