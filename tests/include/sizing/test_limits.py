"""Limits against predictions."""

from __future__ import annotations

import math

import pytest

from include.config.workload import LimitsSection
from include.core.contracts.plan import Prediction
from include.sizing.limits import violations


def predicted(**figures):
    values = {"time_s": 3600.0, "usd": 2.0, "kwh": 0.1, "gco2e": 50.0, "peak_device_bytes": 1, "method": ""}
    return Prediction(**{**values, **figures})


def test_what_is_kept_is_no_violation():
    assert violations(predicted(), LimitsSection(deadline_h=1, budget_usd=2, max_gco2e=50)) == ()
    assert violations(predicted(usd=None, gco2e=None), LimitsSection(deadline_h=1)) == ()


@pytest.mark.parametrize(
    ("limits", "key", "remedy"),
    [
        ({"deadline_h": 0.5}, "limits.deadline_h", "raise limits.deadline_h from 0.5 to 1 (+0.5)"),
        ({"budget_usd": 1.5}, "limits.budget_usd", "raise limits.budget_usd from 1.5 to 2 (+0.5)"),
        ({"max_gco2e": 10}, "limits.max_gco2e", "raise limits.max_gco2e from 10 to 50 (+40)"),
    ],
)
def test_a_violation_says_which_limit_to_relax_by_how_much(limits, key, remedy):
    (found,) = violations(predicted(), LimitsSection(**limits))
    assert found.key == key
    assert found.remedy == remedy
    assert found.excess > 1


def test_an_unknown_figure_does_not_keep_a_limit():
    (found,) = violations(predicted(gco2e=None), LimitsSection(max_gco2e=10))
    assert "cannot be checked" in found.text
    assert found.excess == math.inf
    assert found.remedy == "remove limits.max_gco2e"


@pytest.mark.parametrize("hours", [0.0123456, 1.2345678, 12345.678])
def test_the_advice_is_enough(hours):
    (found,) = violations(predicted(time_s=hours * 3600), LimitsSection(deadline_h=0.001))
    advised = float(found.remedy.split(" to ")[1].split()[0])
    assert violations(predicted(time_s=hours * 3600), LimitsSection(deadline_h=advised)) == ()
