"""What a run teaches, from the documents that its training left."""

from __future__ import annotations

from typing import Any

import pytest

from include.config.run_record import RunRecord
from include.config.workload import Workload
from include.core.contracts.measured import Measured, OutOfMemory
from include.core.contracts.plan import Plan
from include.core.json_codec import to_json
from include.ledger.charges import Charge
from include.ledger.corrections import read_corrections
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.training_outcome import next_run, record_outcome, training_outcome
from plimsoll.operators.seal import SealOperator
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

RUN = {"dag_id": DAG_ID, "run_id": RUN_ID}
MEASURED = Measured(steps=600, step_s=0.03, device="cpu", peak_device_bytes=None, device_memory_bytes=None)


@pytest.fixture
def run(place: Installation, digits: Workload, planned: Plan) -> RunRecord:
    return write_run(place, digits)


def attempt(place: Installation, run: RunRecord, reason: str, **documents: Any) -> None:
    lease = "train-0-g1"
    number = place.ledger.begin_attempt(group_id="train-0", job="train", lease_id=lease, **RUN)
    for name, value in documents.items():
        place.store.put_json(f"{run.run_prefix}/jobs/train-{number}/{name}.json", value)
    place.ledger.end_attempt(job="train", attempt=number, reason=reason, **RUN)


def charge(place: Installation, *, paid_s: float) -> None:
    times = {"period_start": "2026-11-30T00:00:00+00:00", "period_end": "2026-11-30T01:00:00+00:00"}
    place.ledger.charge(Charge(key=f"k{paid_s}", lease_id="train-0-g1", paid_s=paid_s, lost_s=0.0, **times, **RUN))


def telemetry(**changes: Any) -> dict[str, Any]:
    diagnosis = {"verdict": "data-bound", "reason": "waits", "fix": "more workers"}
    return {"ranks": [], "diagnosis": diagnosis, "measured": to_json(MEASURED), **changes}


def test_nothing_before_the_training(place: Installation, run: RunRecord) -> None:
    assert training_outcome(run, place) is None
    assert record_outcome(run, place) is None


def test_a_finished_run_is_recorded_once(place: Installation, run: RunRecord) -> None:
    attempt(place, run, "done", result={"measured": to_json(MEASURED)}, telemetry=telemetry())
    charge(place, paid_s=20.0)
    body = record_outcome(run, place)
    assert record_outcome(run, place) == body
    [event] = place.ledger.events(kind="prediction")
    assert (event.body["outcome"], event.body["family"], event.body["device"]) == (
        "done",
        run.workload.model.factory,
        "this-machine",
    )
    compared = {row["what"]: row for row in event.body["compared"]}
    assert (compared["time"]["measured"], compared["cost"]["measured"]) == (20.0, None)
    assert compared["step"]["measured"] == 0.03


def test_the_attempt_that_came_farthest_is_measured(place: Installation, run: RunRecord) -> None:
    attempt(place, run, "preempted", telemetry=telemetry())
    attempt(place, run, "done", result={"measured": to_json(MEASURED) | {"steps": 3, "step_s": 9.0}})
    found = training_outcome(run, place)
    assert found is not None
    assert found.measured == MEASURED


def test_of_a_killed_attempt_the_account_of_its_steps_is_left(place: Installation, run: RunRecord) -> None:
    steps = {"resumed_step": 100, "last_executed_step": 150, "committed_step": 140, "useful_s": 2.0}
    attempt(place, run, "lost", steps=steps)
    found = training_outcome(run, place)
    assert found is not None
    assert found.measured is not None
    assert (found.measured.steps, found.measured.step_s, found.measured.peak_device_bytes) == (50, 0.04, None)
    attempt(place, run, "lost", steps={**steps, "last_executed_step": 100})
    again = training_outcome(run, place)
    assert again is not None
    assert again.measured == found.measured, "an attempt without a step says nothing"


def test_a_layout_that_did_not_fit_is_a_lesson_of_the_failed_run(place: Installation, run: RunRecord) -> None:
    full = Measured(steps=0, step_s=None, device="T0", peak_device_bytes=10**9, device_memory_bytes=16 * 10**9)
    lesson = OutOfMemory(layout=None, measured=full, message="out of memory")
    attempt(place, run, "bad_input", out_of_memory=to_json(lesson))
    found = training_outcome(run, place)
    assert found is not None
    assert (found.outcome, found.out_of_memory, found.ran_out) == ("out of memory", True, 16 * 10**9)


@pytest.mark.parametrize(
    ("reason", "paid_s", "outcome"),
    [("released", 3601.0, "timed out"), ("released", 60.0, "stopped"), ("error", 3601.0, "failed")],
)
def test_how_it_ended(place: Installation, run: RunRecord, reason: str, paid_s: float, outcome: str) -> None:
    attempt(place, run, reason)
    charge(place, paid_s=paid_s)
    found = training_outcome(run, place)
    assert found is not None
    assert found.outcome == outcome


def test_the_seal_of_a_failed_run_keeps_what_it_taught(place: Installation, run: RunRecord) -> None:
    attempt(place, run, "released", telemetry=telemetry())
    with pytest.raises(Exception, match="not sound"):
        SealOperator(task_id="seal").execute(context(FakeTaskInstance(states={"training.train": "failed"})))
    [event] = place.ledger.events(kind="prediction")
    assert event.body["outcome"] == "stopped"
    learned = place.store.get_json(f"{run.run_prefix}/learned.json")
    assert (learned["outcome"], learned["recommendation"]["action"]) == ("stopped", "fix loading")


def test_the_next_run_rests_on_the_ledger(place: Installation, run: RunRecord, planned: Plan) -> None:
    attempt(place, run, "done", result={"measured": to_json(MEASURED)}, telemetry=telemetry())
    record_outcome(run, place)
    actual = training_outcome(run, place)
    assert actual is not None
    found = next_run(run, place, planned, actual)
    assert (found.action, found.instance_type) == ("fix loading", "this-machine")
    runs = [correction.runs for correction in read_corrections(place.ledger)]
    assert found.confidence.runs == (runs[0] if runs else 0)
