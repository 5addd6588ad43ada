"""The plan for the digits workload, as it was when somebody last looked at it with care.

A change of a formula, an assumption or the catalog shows here. When the new plan is right, write what the failing test
prints into ``tests/golden/digits_plan.json``.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

from include.catalog.loader import load_catalog
from include.catalog.local import local_offer
from include.config.loader import load_workload
from include.config.settings import REPO, Settings
from include.core.contracts.demand import Demand
from include.core.json_codec import from_json, to_json
from include.sizing.planner import make_plan

GOLDEN = Path(__file__).parents[2] / "golden"
SHOWN = 8


def rounded(value):
    """Five significant digits: what arithmetic on another machine may change is below that."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def brief(alternative):
    return {
        "offer": alternative.offer.name,
        "usd": alternative.prediction and alternative.prediction.usd,
        "time_s": alternative.prediction and alternative.prediction.time_s,
        "rejected": alternative.rejected,
    }


def test_the_plan_for_digits():
    settings = Settings(region="world", usd_per_kwh="0.30", tariff_as_of="2026-11-30", idle_w=10, peak_w=40)
    today = date(2026, 11, 30)
    plan = make_plan(
        demand=from_json(Demand, json.loads((GOLDEN / "digits_demand.json").read_text())),
        offers=(local_offer(settings, today=today, cores=2, ram_bytes=16 * 10**9), *load_catalog()),
        workload=load_workload(REPO / "include" / "workloads" / "digits.yaml"),
        settings=settings,
        today=today,
    )
    found = rounded(
        {
            "offer": plan.offer.name,
            "layout": to_json(plan.layout),
            "prediction": to_json(plan.prediction),
            "checkpoint_every_steps": plan.checkpoint_every_steps,
            "objective": plan.objective.value,
            "rule": plan.rule,
            "naive": brief(plan.naive),
            "alternatives": len(plan.alternatives),
            "best_alternatives": [brief(a) for a in plan.alternatives[:SHOWN]],
        }
    )
    expected = json.loads((GOLDEN / "digits_plan.json").read_text())
    assert found == expected, json.dumps(found, indent=2)
