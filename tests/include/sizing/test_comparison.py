"""Predicted beside measured; what is not known stays unknown."""

from dataclasses import replace

import pytest

from include.core.contracts.measured import Measured
from include.core.contracts.plan import Layout
from include.sizing.comparison import Actual, compare, prediction_event
from tests.support.offers import this_machine
from tests.support.plans import plan

GPU = Measured(steps=100, step_s=0.2, device="NVIDIA A100", peak_device_bytes=10**9, device_memory_bytes=8 * 10**10)


def rows(actual, **fields):
    return {row.what: row for row in compare(plan(**fields), actual)}


def test_each_figure_has_both_sides_and_their_ratio():
    found = rows(Actual(outcome="done", time_s=7200.0, usd=15.0, cost_method="paid hours", measured=GPU))
    assert (found["memory"].predicted, found["memory"].measured, found["memory"].ratio) == (8 * 10**8, 10**9, 1.25)
    assert found["step"].ratio == pytest.approx(2.0)
    assert found["time"].ratio == pytest.approx(2.0)
    assert (found["cost"].ratio, found["cost"].method) == (1.5, "paid hours")
    assert found["energy"].ratio is None
    assert "100 steps on NVIDIA A100" in found["step"].method


def test_without_a_device_memory_is_not_measured_and_not_zero():
    found = rows(Actual(outcome="done", measured=replace(GPU, device="cpu", peak_device_bytes=None)))
    assert (found["memory"].measured, found["memory"].ratio) == (None, None)
    assert "not measured" in found["memory"].method


def test_another_layout_is_not_held_against_the_planned_one():
    other = replace(GPU, layout=Layout(precision="bf16", micro_batch=16, accumulation=2))
    actual = Actual(outcome="done", measured=other, out_of_memory=True, ran_out=8 * 10**10)
    found = rows(actual)
    assert found["memory"].measured is None
    assert found["step"].measured is None
    event = prediction_event(plan(), actual, family="cnn")
    assert (event["layout_changed"], event["memory"]["device_bytes"]) == (True, 8 * 10**10)


def test_the_event_names_what_is_learned_about():
    event = prediction_event(plan(chosen=this_machine()), Actual(outcome="done", measured=GPU), family="cnn")
    assert (event["family"], event["device"], event["precision"]) == ("cnn", "this-machine", "bf16")
    assert event["step"] == {"predicted_s": 0.1, "measured_s": 0.2, "steps": 100}
    assert prediction_event(plan(), Actual(outcome="failed"), family="cnn")["device"] == "T0"
