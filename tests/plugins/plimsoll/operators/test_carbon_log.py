"""The account of a run: the report, what the ledger learns, and the limit."""

from __future__ import annotations

from datetime import date

import pytest
from airflow.sdk.exceptions import AirflowFailException

from include.catalog.local import local_offer
from include.config.run_record import RunRecord
from include.config.workload import Workload
from include.core.contracts.measured import Measured
from include.core.contracts.plan import Plan
from include.core.json_codec import to_json
from include.ledger.charges import Charge
from include.ledger.corrections import read_corrections
from plimsoll import task_ids
from plimsoll.hooks.installation import Installation
from plimsoll.operators.carbon_log import CarbonLogOperator
from plimsoll.operators.plan_training import PlanTrainingOperator
from tests.support.offers import demand
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

RUN = {"dag_id": DAG_ID, "run_id": RUN_ID}
TIMES = {"period_start": "2026-11-30T00:00:00+00:00", "period_end": "2026-11-30T01:00:00+00:00"}
MEASURED = Measured(steps=600, step_s=0.03, device="cpu", peak_device_bytes=None, device_memory_bytes=None)


@pytest.fixture
def run(place: Installation, digits: Workload, planned: Plan) -> RunRecord:
    """A run whose training is over."""
    record = write_run(place, digits)
    number = place.ledger.begin_attempt(group_id="train-0", job="train", lease_id="train-0-g1", **RUN)
    base = f"{record.run_prefix}/jobs/train-{number}"
    place.store.put_json(f"{base}/result.json", {"measured": to_json(MEASURED)})
    verdict = {"verdict": "data-bound", "reason": "waits", "fix": "more workers"}
    place.store.put_json(f"{base}/telemetry.json", {"diagnosis": verdict})
    place.ledger.end_attempt(job="train", attempt=number, reason="done", **RUN)
    return record


def pay(place: Installation, *, gco2e: float | None) -> None:
    values = {"paid_s": 20.0, "useful_s": 18.0, "lost_s": 0.0, "idle_s": 2.0, "gco2e": gco2e}
    place.ledger.charge(Charge(key="k", lease_id="train-0-g1", **values, **TIMES, **RUN))


def finish(place: Installation, run: RunRecord) -> dict:
    return CarbonLogOperator(task_id="report").finish({}, run, place, {"mlflow_run_id": "m"})


def test_the_report_has_both_sides_and_a_recommendation(place: Installation, run: RunRecord) -> None:
    pay(place, gco2e=1.5)
    assert finish(place, run)["gco2e"] == 1.5
    report = place.store.get_json(f"{run.run_prefix}/report.json")
    rows = {row["what"]: row for row in report["compared"]}
    assert (rows["time"]["measured"], rows["carbon"]["measured"]) == (20.0, 1.5)
    assert rows["step"]["ratio"] == pytest.approx(0.03 / rows["step"]["predicted"])
    assert report["recommendation"]["action"] == "fix loading"
    assert report["recommendation"]["confidence"]["runs"] == 1, "this run counts already"
    assert report["mlflow_run_id"] == "m"


def test_the_next_plan_learns_from_it_once(place: Installation, run: RunRecord) -> None:
    pay(place, gco2e=1.5)
    finish(place, run)
    finish(place, run)
    [found] = read_corrections(place.ledger)
    assert (found.family, found.device, found.runs) == (run.workload.model.factory, "this-machine", 1)
    assert found.memory_ratio is None


def test_the_plan_task_of_the_next_run_is_corrected_by_it(
    place: Installation, run: RunRecord, planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay(place, gco2e=1.5)
    finish(place, run)
    offers = (local_offer(place.settings, today=date(2026, 11, 30)),)
    monkeypatch.setattr(place.engine, "offers", lambda _: offers, raising=False)
    needs = demand(family=run.workload.model.factory)
    ti = FakeTaskInstance(xcoms={task_ids.PROFILE: {"demand": to_json(needs)}})
    predicted = PlanTrainingOperator(task_id="plan").execute(context(ti))["prediction"]
    assert "corrected by 1 runs" in predicted["method"]
    assert predicted["step_s"] == planned.prediction.step_s, "what is measured against stays as it was"
    assert planned.prediction.step_s is not None
    slower = MEASURED.step_s > planned.prediction.step_s
    assert (predicted["time_s"] > planned.prediction.time_s) is slower


def test_the_job_is_told_what_goes_to_mlflow(place: Installation, run: RunRecord) -> None:
    pay(place, gco2e=1.5)
    inputs = CarbonLogOperator(task_id="report").inputs(context(FakeTaskInstance()), run, place)["inputs"]
    assert inputs["recommendation"]["action"] == "fix loading"
    assert inputs["registered"] is None


def test_unknown_carbon_fails_a_run_with_a_limit_and_it_still_teaches(place: Installation, run: RunRecord) -> None:
    pay(place, gco2e=None)
    with pytest.raises(AirflowFailException, match="carbon of the run is unknown"):
        finish(place, run)
    assert len(read_corrections(place.ledger)) == 1


def test_a_run_without_a_training_has_a_report_all_the_same(place: Installation, digits: Workload) -> None:
    record = write_run(place, digits)
    with pytest.raises(AirflowFailException, match="carbon of the run is unknown"):
        finish(place, record)
    report = place.store.get_json(f"{record.run_prefix}/report.json")
    assert (report["predicted"], report["training"], report["compared"]) == (None, None, [])
    assert report["recommendation"] is None
    assert place.ledger.events(kind="prediction") == ()
