"""What is checked before money is spent."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from include.config.run_options import RunOptions
from include.config.run_record import RunRecord
from include.config.workload import Workload
from include.core.contracts.plan import Plan
from include.core.ids import run_prefix
from include.ledger.budget import raise_budget
from plimsoll.hooks.installation import Installation
from plimsoll.operators.checks import ApproveSpendingOperator, CheckInputsOperator
from plimsoll.operators.seal import SealOperator
from plimsoll.operators.start_run import StartRunOperator
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

PREPARED = {"prepare": {"dataset": {"fingerprint": "abc"}}}


def check(ti: FakeTaskInstance) -> str:
    return CheckInputsOperator(task_id="check_inputs").execute(context(ti))


def seal(ti: FakeTaskInstance) -> dict:
    return SealOperator(task_id="seal", done_task="report").execute(context(ti))


def test_a_scheduled_run_with_nothing_new_is_skipped(place: Installation, digits: Workload) -> None:
    write_run(place, digits, started_by="schedule")
    key = check(FakeTaskInstance(xcoms=PREPARED))
    seal(FakeTaskInstance(xcoms={"check_inputs": key}, states={"report": "success"}))
    with pytest.raises(AirflowSkipException, match="are those of"):
        check(FakeTaskInstance(xcoms=PREPARED))


def test_new_data_is_not_skipped(place: Installation, digits: Workload) -> None:
    write_run(place, digits, started_by="schedule")
    key = check(FakeTaskInstance(xcoms=PREPARED))
    seal(FakeTaskInstance(xcoms={"check_inputs": key}, states={"report": "success"}))
    assert check(FakeTaskInstance(xcoms={"prepare": {"dataset": {"fingerprint": "new"}}})) != key


def test_a_person_is_never_skipped(place: Installation, digits: Workload) -> None:
    write_run(place, digits, started_by="person")
    key = check(FakeTaskInstance(xcoms=PREPARED))
    seal(FakeTaskInstance(xcoms={"check_inputs": key}, states={"report": "success"}))
    assert check(FakeTaskInstance(xcoms=PREPARED)) == key


@pytest.mark.parametrize("bad", ["failed", "upstream_failed"])
def test_an_unsound_run_fails_and_marks_nothing(place: Installation, digits: Workload, bad: str) -> None:
    write_run(place, digits, started_by="schedule")
    key = check(FakeTaskInstance(xcoms=PREPARED))
    with pytest.raises(AirflowFailException, match="not sound"):
        seal(FakeTaskInstance(xcoms={"check_inputs": key}, states={"train": bad, "report": "success"}))
    assert place.store.get_json(key) is None
    assert place.store.exists(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/sealed.json")


def test_a_skipped_run_marks_nothing(place: Installation, digits: Workload) -> None:
    write_run(place, digits, started_by="schedule")
    key = check(FakeTaskInstance(xcoms=PREPARED))
    place.store.put_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/skipped.json", {})
    seal(FakeTaskInstance(xcoms={"check_inputs": key}, states={"report": "skipped"}))
    assert place.store.get_json(key) is None


def test_a_run_marked_failed_between_two_tasks_is_shown_as_failed(place: Installation, digits: Workload) -> None:
    write_run(place, digits)
    with pytest.raises(AirflowFailException, match="ended before report"):
        seal(FakeTaskInstance(states={"start": "success", "prepare": "skipped", "report": "skipped"}))


def test_a_run_that_chose_to_end_early_is_sound(place: Installation, digits: Workload, planned: Plan) -> None:
    write_run(place, digits, options=RunOptions(plan_only=True))
    with pytest.raises(AirflowSkipException):
        approve(place)
    assert seal(FakeTaskInstance(states={"plan": "success", "report": "skipped"}))


def approve(place: Installation) -> dict:
    return ApproveSpendingOperator(task_id="approve").execute(context(FakeTaskInstance()))


def test_a_plan_within_the_budget_is_approved(place: Installation, digits: Workload, planned: Plan) -> None:
    write_run(place, digits)
    assert approve(place)["offer"] == planned.offer.name


def test_a_plan_above_the_budget_is_refused(place: Installation, digits: Workload, planned: Plan) -> None:
    poor = digits.model_copy(update={"limits": digits.limits.model_copy(update={"budget_usd": 1e-9})})
    write_run(place, poor)
    with pytest.raises(AirflowFailException, match=r"limits\.budget_usd"):
        approve(place)


def test_plan_only_stops_here(place: Installation, digits: Workload, planned: Plan) -> None:
    write_run(place, digits, options=RunOptions(plan_only=True))
    with pytest.raises(AirflowSkipException, match="plan only"):
        approve(place)


def start(place: Installation, digits: Workload, **kwargs) -> list[str]:
    operator = StartRunOperator(task_id="start", workload=digits.model_dump(mode="json"))
    return operator.execute(context(FakeTaskInstance(), **kwargs))


def record(place: Installation) -> RunRecord:
    return RunRecord.model_validate(place.store.get_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/run.json"))


def test_the_form_is_laid_over_the_file(place: Installation, digits: Workload) -> None:
    recipes = start(place, digits, params={"objective": "carbon", "recipes": ["static-int8"], "budget_usd": 3})
    assert recipes == ["onnx-fp32", "static-int8"]
    assert record(place).workload.compute.objective.value == "carbon"
    assert record(place).workload.limits.budget_usd == 3


@pytest.mark.parametrize(
    ("run_type", "started_by"),
    [("manual", "person"), ("scheduled", "schedule"), ("asset_triggered", "asset"), ("backfill", "person")],
)
def test_it_knows_who_started_the_run(place: Installation, digits: Workload, run_type: str, started_by: str) -> None:
    start(place, digits, run_type=run_type)
    assert record(place).started_by == started_by


def test_a_form_that_makes_no_workload_is_refused(place: Installation, digits: Workload) -> None:
    with pytest.raises(AirflowFailException, match="unknown recipe 'magic'"):
        start(place, digits, params={"recipes": ["magic"]})


def test_other_data_from_the_form_forgets_the_files_columns(place: Installation, digits: Workload) -> None:
    start(place, digits, params={"data_uri": "s3://bucket/x.csv", "label": "y", "model_preset": "mlp"})
    data = record(place).workload.data
    assert (data.source.uri, data.label, data.image_shape, data.expectations) == ("s3://bucket/x.csv", "y", None, ())


def test_a_deadline_in_hours_counts_from_the_start_of_the_run(place: Installation, digits: Workload) -> None:
    surroundings = context(FakeTaskInstance())
    surroundings["dag_run"].start_date = datetime(2026, 11, 30, 10, tzinfo=UTC)
    StartRunOperator(task_id="start", workload=digits.model_dump(mode="json")).execute(surroundings)
    run = RunRecord.model_validate(place.store.get_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/run.json"))
    assert run.started_at == "2026-11-30T10:00:00+00:00"


def test_a_raised_budget_approves_what_it_covers(place: Installation, digits: Workload, planned: Plan) -> None:
    usd = planned.prediction.usd
    assert usd is not None
    raw = digits.model_dump(mode="json")
    raw["limits"]["budget_usd"] = usd / 2
    write_run(place, Workload.model_validate(raw))
    with pytest.raises(AirflowFailException, match="budget_usd"):
        ApproveSpendingOperator(task_id="approve").execute(context(FakeTaskInstance()))
    raise_budget(place.ledger, dag_id=DAG_ID, run_id=RUN_ID, ordered=Decimal(str(usd / 2)), usd=Decimal(1))
    assert ApproveSpendingOperator(task_id="approve").execute(context(FakeTaskInstance()))["budget_usd"] == 1.0
