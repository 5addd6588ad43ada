"""The plan as a task."""

from __future__ import annotations

import json
import logging

import pytest
from airflow.sdk.exceptions import AirflowFailException

from include.config.workload import Workload
from include.core.contracts.demand import Demand
from include.core.contracts.plan import Plan
from include.core.ids import run_prefix
from include.core.json_codec import from_json, to_json
from plimsoll.hooks.installation import Installation
from plimsoll.operators.plan_training import PlanTrainingOperator, read_demand
from tests.support.offers import demand, this_machine
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

PREFIX = run_prefix(workload=DAG_ID, run_id=RUN_ID)


@pytest.fixture(autouse=True)
def machine(place: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place.engine, "offers", lambda _: (this_machine(),))


def plan(profiled: Demand | None = None) -> dict:
    ti = FakeTaskInstance(xcoms={"profile": {"demand": to_json(profiled or demand())}})
    return PlanTrainingOperator(task_id="plan").execute(context(ti))


def test_the_plan_is_in_the_store_and_a_table_of_it_in_the_log(
    place: Installation, digits: Workload, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(place, digits)
    monkeypatch.setattr(PlanTrainingOperator, "log", logging.getLogger("test.plan"))
    with caplog.at_level(logging.INFO):
        brief = plan()
    kept = from_json(Plan, place.store.get_json(f"{PREFIX}/plan.json"))
    assert brief["offer"] == kept.offer.name == "this-machine/local/local"
    assert brief["instances"] == 1
    assert len(json.dumps(brief)) < 10_000
    assert len(kept.alternatives) > 500
    told = caplog.text
    assert "Front by time, cost and carbon" in told
    assert "Without sizing:" in told
    assert "engine ec2 is not configured" in told


def test_a_deadline_that_has_passed_fails_the_task_with_one_clear_line(place: Installation, digits: Workload) -> None:
    raw = digits.model_dump(mode="json")
    raw["limits"]["deadline"] = "2020-01-01T00:00:00+00:00"
    write_run(place, Workload.model_validate(raw))
    with pytest.raises(AirflowFailException, match="the deadline has passed"):
        plan()


def test_the_whole_demand_comes_from_the_store(place: Installation) -> None:
    whole, brief = demand(steps=7), to_json(demand(steps=8))
    place.store.put_json(f"{PREFIX}/demand.json", to_json(whole))
    named = {"demand": brief, "demand_uri": place.store.uri(f"{PREFIX}/demand.json")}
    assert read_demand(named, place) == whole
    assert read_demand({"demand": brief}, place).steps == 8
    assert read_demand({"demand": brief, "demand_uri": place.store.uri("gone.json")}, place).steps == 8
