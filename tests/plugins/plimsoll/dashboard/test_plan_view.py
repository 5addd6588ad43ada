"""The plan on the dashboard."""

from __future__ import annotations

import json
from datetime import date

from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption
from include.core.json_codec import to_json
from include.sizing.planner import make_plan
from plimsoll.dashboard.plan_view import plan_view
from tests.support.offers import offer, order, this_machine
from tests.support.textbook_demands import GPT2, demand_of


def document():
    big = {
        "accelerators": 8,
        "accelerator_memory_bytes": 80 * 10**9,
        "ram_bytes": 10**12,
        "interconnect_bytes_per_s": 3e11,
    }
    rented = {"accelerator_tflops": {"fp32": 20.0}, "idle_w": 50.0, "peak_w": 400.0}
    plan = make_plan(
        demand=demand_of(GPT2, micro_batch=8, steps=1000, family="gpt2"),
        offers=(
            this_machine(),
            offer(instance_type="small", usd="0.5", accelerator_memory_bytes=24 * 10**9, **rented),
            offer(instance_type="big", usd="40", **rented, **big),
            *(offer(instance_type=f"spot{i}", usd=None, purchase=PurchaseOption.SPOT) for i in range(30)),
        ),
        workload=order(engine="any"),
        settings=Settings(),
        today=date(2026, 11, 30),
    )
    return to_json(plan)


def test_front_saving_and_reasons_are_there_and_the_rejected_are_counted_not_listed():
    shown = plan_view(document())
    assert shown["chosen"]["name"] == "small/on-demand/us-east-1"
    assert {point["name"] for point in shown["front"]} == {"small/on-demand/us-east-1", "big/on-demand/us-east-1"}
    assert [point["chosen"] for point in shown["front"]].count(True) == 1
    assert shown["naive"]["name"] == "big/on-demand/us-east-1"
    assert "predicted times x price" in shown["saving"]
    assert shown["rejected"] == 31
    assert len(shown["alternatives"]) == 15
    assert sum(count for count, _ in shown["reasons"]) >= 31
    assert len(json.dumps(shown)) < 20_000
    assert shown["rule"].startswith("normal")


def test_what_cannot_be_read_is_absent():
    assert plan_view(None) is None
    assert plan_view({"offer": 1}) is None
