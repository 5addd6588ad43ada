"""Predictions of one training on one offer."""

from __future__ import annotations

import pytest

from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Layout
from include.sizing.assumptions import assume
from include.sizing.prediction import forecast
from tests.support.offers import demand, offer, order, this_machine

ASSUMED = assume(Settings(region="world"))
LAYOUT = Layout(micro_batch=64)


def predict(where, *, layout=LAYOUT, needs=None, **sections):
    workload = order(**{"training": {"epochs": 30, "batch_size": 64}, **sections})
    return forecast(demand=needs or demand(), offer=where, workload=workload, layout=layout, assumptions=ASSUMED)


def test_this_machine():
    found = predict(this_machine())
    # 600 steps of 20 ms, validation of 0.15 / 0.65 rows per row at a third of a step, a save per 20 steps, 8 s start
    expected = 8 + 600 * 0.02 * (1 + 0.15 / 0.65 / 3) + 30 * 0.1
    figures = found.prediction
    assert found.checkpoint_every_steps == 20
    assert figures.time_s == pytest.approx(expected, rel=1e-3)
    assert figures.usd == pytest.approx(0.012 * figures.time_s / 3600)
    # one of two cores busy: 20 W; idle power of a shared machine is not counted
    assert figures.kwh == pytest.approx(20 * figures.time_s / 3.6e6)
    assert figures.gco2e == pytest.approx(figures.kwh * 475)
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
    assert figures.gco2e == pytest.approx(figures.kwh * 369.473)


def test_without_a_price_the_cost_is_unknown_not_zero():
    figures = predict(offer(usd=None)).prediction
    assert figures.usd is None
    assert figures.time_s > 0


def test_without_facts_everything_but_memory_is_unknown():
    figures = predict(offer(accelerator_tflops={})).prediction
    assert (figures.time_s, figures.usd, figures.kwh, figures.gco2e) == (None, None, None, None)
    assert figures.peak_device_bytes > 0
    assert "unknown" in figures.method


def test_memory_has_its_margin_and_a_gpu_its_context():
    total = demand().memory.total_bytes
    assert predict(this_machine()).prediction.peak_device_bytes == round(1.10 * total)
    assert predict(offer()).prediction.peak_device_bytes == round(1.10 * total) + 10**9
    recomputed = Layout(micro_batch=64, activation_checkpointing="block")
    assert predict(this_machine(), layout=recomputed).prediction.peak_device_bytes == round(1.20 * total)


def test_spot_takes_longer_than_on_demand():
    long = demand(flop_per_sample=1e12)
    spot, steady = (predict(offer(purchase=p), needs=long) for p in (PurchaseOption.SPOT, PurchaseOption.ON_DEMAND))
    assert spot.prediction.time_s > steady.prediction.time_s
    assert spot.checkpoint_every_steps <= steady.checkpoint_every_steps


def test_the_workload_may_fix_the_checkpoint_interval():
    training = {"epochs": 30, "batch_size": 64, "checkpoint_every_steps": 7}
    assert predict(this_machine(), training=training).checkpoint_every_steps == 7
    assert predict(offer(accelerator_tflops={}), training=training).checkpoint_every_steps == 7
