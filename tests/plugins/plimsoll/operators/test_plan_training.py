"""The plan operator: the whole plan in the store, own experience in its offers, one error for a bad catalog."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from include.catalog.local import local_offer
from include.config.workload import Workload
from include.core.contracts.device_profile import DeviceProfile
from include.core.contracts.diagnosis import Diagnosis, Slowness
from include.core.contracts.measured import Measured
from include.core.contracts.plan import Layout, Plan
from include.core.errors import UserError
from include.core.ids import run_prefix
from include.core.json_codec import from_json, to_json
from include.ledger.corrections import read_corrections
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation
from plimsoll.operators import plan_training
from plimsoll.operators.plan_training import PlanTrainingOperator
from tests.support.offers import demand
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run
from tests.support.textbook_demands import five

PREFIX = run_prefix(workload=DAG_ID, run_id=RUN_ID)


@pytest.fixture
def prepared(place: Installation, digits: Workload, monkeypatch: pytest.MonkeyPatch) -> Installation:
    write_run(place, digits)
    monkeypatch.setattr(place.engine, "offers", lambda demand: (local_offer(place.settings),), raising=False)
    return place


def plan(**profile: Any) -> dict:
    ti = FakeTaskInstance(xcoms={task_ids.PROFILE: {"demand": to_json(demand()), **profile}})
    return PlanTrainingOperator(task_id="plan").execute(context(ti))


def written(place: Installation) -> Plan:
    return from_json(Plan, place.store.get_json(f"{PREFIX}/plan.json"))


def test_the_whole_plan_is_in_the_store_and_its_gist_in_the_answer(prepared: Installation) -> None:
    gist = plan()
    found = written(prepared)
    assert gist["plan_uri"] == prepared.store.uri(f"{PREFIX}/plan.json")
    assert gist["offer"] == found.offer.name == "this-machine/local/local"
    assert any(ranked.offer.instance_type == "g5.xlarge" for ranked in found.alternatives)


def test_interruptions_that_were_seen_are_in_the_offers(prepared: Installation) -> None:
    run = {"dag_id": "other", "run_id": "manual__1"}
    lease = prepared.ledger.intent(group_id="train-0123456789ab", **run).lease_id
    launched = {"instance_type": "g5.xlarge", "purchase": "spot"}
    prepared.ledger.launched(group_id="train-0123456789ab", lease_id=lease, details=launched)
    number = prepared.ledger.begin_attempt(group_id="train-0123456789ab", job="train", lease_id=lease, **run)
    prepared.ledger.end_attempt(job="train", attempt=number, reason="preempted", **run)
    plan()
    rates = {r.offer.name: r.offer.interruptions_source for r in written(prepared).alternatives}
    assert rates["g5.xlarge/spot/us-east-1"].startswith("learned: 1 interruption in ")
    assert rates["g5.2xlarge/spot/us-east-1"].startswith("estimated")


def test_a_catalog_file_with_mistakes_is_told(prepared: Installation, tmp_path, monkeypatch) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps({"currency": "EUR"}))
    place = replace(prepared, settings=prepared.settings.model_copy(update={"catalog_file": str(path)}))
    monkeypatch.setattr(plan_training, "connect", lambda: place)
    with pytest.raises((UserError, AirflowFailException), match=r"mine\.yaml: 1 mistake"):
        plan()
    assert not prepared.store.exists(f"{PREFIX}/plan.json")


def test_a_profile_on_a_gpu_teaches_once_and_before_the_plan(prepared: Installation, monkeypatch) -> None:
    whole = replace(five()["resnet50"][0], cpu_s_per_step=0.02, steps=1000)
    prepared.store.put_json("demand.json", to_json(whole))
    measured = Measured(
        steps=20, step_s=5.0, device="NVIDIA A10G", peak_device_bytes=10**9, device_memory_bytes=22_503 * 2**20,
        layout=Layout(precision="fp32", micro_batch=32),
    )  # fmt: skip
    verdict = Diagnosis(verdict=Slowness.OK, reason="test")
    device = DeviceProfile(measured=measured, warm_steps=5, out_of_memory=False, diagnosis=verdict, sources={})
    for _ in range(2):
        plan(demand_uri=prepared.store.uri("demand.json"), device=to_json(device))
    (event,) = prepared.ledger.events(kind="prediction")
    assert (event.body["device"], event.body["source"]) == ("A10G", "profile")
    (learned,) = read_corrections(prepared.ledger)
    assert (learned.family, learned.device, learned.precision, learned.runs) == (whole.family, "A10G", "fp32", 1)


def test_without_a_gpu_a_profile_teaches_nothing(prepared: Installation) -> None:
    plan(device=None)
    assert not prepared.ledger.events(kind="prediction")
