"""The job operator: defer, resume, finish, fail; every entry point does the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from include.compute.driver import JobFailedError
from include.config.job_messages import JobRequest
from include.config.workload import Workload
from include.core.contracts.lease import JobPhase, JobState
from include.core.heartbeat import JobHeartbeat
from include.core.json_codec import to_json
from plimsoll.hooks.installation import Installation
from plimsoll.operators.resumable_training import ResumableTrainingOperator
from plimsoll.operators.run_job import RunJobOperator
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

DATASET = {"uri": "file:///d/manifest.json", "fingerprint": "abc", "rows": {"train": 10, "validation": 2, "test": 3}}


@pytest.fixture
def prepare() -> RunJobOperator:
    return RunJobOperator(task_id="prepare", kind="prepare", patience=timedelta(0))


def deferral(operator: RunJobOperator, ti: FakeTaskInstance) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context(ti))
    return caught.value


def test_it_submits_a_valid_request_and_defers(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    run = write_run(place, digits)
    deferred = deferral(prepare, FakeTaskInstance())
    assert deferred.method_name == "resume"
    assert deferred.trigger.base == f"{run.run_prefix}/jobs/prepare-1"
    [(lease_id, base)] = place.engine.submitted
    assert lease_id.startswith("control-")
    assert base == deferred.trigger.base


def test_the_control_lease_is_never_stopped_by_a_watch(
    place: Installation, digits: Workload, prepare: RunJobOperator
) -> None:
    write_run(place, digits)
    assert deferral(prepare, FakeTaskInstance()).trigger.nonce == ""


def test_a_retry_re_attaches(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    write_run(place, digits)
    first, second = deferral(prepare, FakeTaskInstance()), deferral(prepare, FakeTaskInstance())
    assert first.trigger.base == second.trigger.base
    assert len(place.engine.submitted) == 1


def test_the_result_is_returned_and_charged(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    write_run(place, digits)
    deferred = deferral(prepare, FakeTaskInstance())
    place.engine.finish(deferred.trigger.base, exit_code=0, result={"dataset": DATASET, "found": True})
    result = prepare.resume(context(FakeTaskInstance()), {"status": "exited", "lease_id": deferred.trigger.lease_id})
    assert result["dataset"]["fingerprint"] == "abc"
    [charge] = place.ledger.charges(dag_id=DAG_ID, run_id=RUN_ID)
    assert charge.job == "prepare-1"


class QuickEngine:
    """Its jobs exit as soon as they are submitted, as an agent would tell it."""

    def __init__(self, place: Installation, **end: Any) -> None:
        submit = place.engine.submit

        def submit_and_end(lease_id: str, ticket: Any, request: dict[str, Any]) -> None:
            submit(lease_id, ticket, request)
            if (lease_id, ticket.base) not in self.ended:
                self.ended.append((lease_id, ticket.base))
                place.store.put(f"{ticket.base}/log/000001", b"reading rows\nwriting shards\n")
                beat = JobHeartbeat(sequence=1, at="2026-11-30T12:00:00Z", state="exited", chunks=1)
                place.store.put_json(f"{ticket.base}/heartbeat.json", to_json(beat))
                # What the first look saw was a job in the queue; only the next one finds it at its end.
                place.engine.jobs[ticket.base] = JobState(phase=JobPhase.QUEUED)
            else:
                place.engine.finish(ticket.base, **end)

        self.ended: list[tuple[str, str]] = []
        place.engine.submit = submit_and_end


def test_a_short_job_ends_without_a_deferral_and_its_log_is_the_tasks(
    place: Installation, digits: Workload, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(place, digits)
    quick = QuickEngine(place, exit_code=0, result={"dataset": DATASET, "found": False})
    result = RunJobOperator(task_id="prepare", kind="prepare").execute(context(FakeTaskInstance()))
    assert result["dataset"]["fingerprint"] == "abc"
    assert len(quick.ended) == 1
    said = capsys.readouterr().out
    assert [said.count(f"[000001] {line}") for line in ("reading rows", "writing shards")] == [1, 1]
    [charge] = place.ledger.charges(dag_id=DAG_ID, run_id=RUN_ID)
    assert charge.job == "prepare-1"


def test_a_short_job_that_fails_does_so_without_a_deferral(place: Installation, digits: Workload) -> None:
    write_run(place, digits)
    QuickEngine(place, exit_code=1)
    with pytest.raises(JobFailedError):
        RunJobOperator(task_id="prepare", kind="prepare").execute(context(FakeTaskInstance()))


def test_a_job_that_takes_longer_is_left_to_the_trigger(place: Installation, digits: Workload) -> None:
    write_run(place, digits)
    patient = RunJobOperator(task_id="prepare", kind="prepare", patience=timedelta(seconds=0.3))
    assert deferral(patient, FakeTaskInstance()).trigger.base.endswith("/jobs/prepare-1")


def test_jobs_on_rented_capacity_are_watched_by_a_trigger_from_the_start(
    place: Installation, digits: Workload, planned: None
) -> None:
    write_run(place, digits)
    quick = QuickEngine(place, exit_code=0)
    deferral(ResumableTrainingOperator(task_id="train"), FakeTaskInstance(xcoms={"prepare": {"dataset": DATASET}}))
    assert len(quick.ended) == 1


def test_resuming_twice_changes_nothing(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    write_run(place, digits)
    deferred = deferral(prepare, FakeTaskInstance())
    event = {"status": "lost", "lease_id": "an-older-lease", "why": "silent"}
    with pytest.raises(TaskDeferred) as again:
        prepare.resume(context(FakeTaskInstance()), event)
    assert again.value.trigger.base == deferred.trigger.base


def test_bad_input_fails_without_retries(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    write_run(place, digits)
    deferred = deferral(prepare, FakeTaskInstance())
    place.store.put_json(f"{deferred.trigger.base}/outcome.json", {"status": "bad_input", "error": "no such column"})
    place.engine.finish(deferred.trigger.base, exit_code=64)
    with pytest.raises(AirflowFailException, match="no such column"):
        prepare.execute(context(FakeTaskInstance()))


def test_an_error_is_left_to_airflows_retries(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    write_run(place, digits)
    deferred = deferral(prepare, FakeTaskInstance())
    place.engine.finish(deferred.trigger.base, exit_code=1)
    with pytest.raises(JobFailedError):
        prepare.execute(context(FakeTaskInstance()))


def test_a_large_result_does_not_go_into_xcom(place: Installation, digits: Workload, prepare: RunJobOperator) -> None:
    write_run(place, digits)
    deferred = deferral(prepare, FakeTaskInstance())
    place.engine.finish(deferred.trigger.base, exit_code=0, result={"rows": ["x" * 100] * 200})
    with pytest.raises(AirflowFailException, match="at most 10000"):
        prepare.execute(context(FakeTaskInstance()))


def test_without_a_run_record_it_says_what_to_do(place: Installation, prepare: RunJobOperator) -> None:
    with pytest.raises(AirflowFailException, match="clear the run from its first task"):
        prepare.execute(context(FakeTaskInstance()))


def test_training_counts_its_interruptions(place: Installation, digits: Workload, planned: None) -> None:
    write_run(place, digits)
    train = ResumableTrainingOperator(task_id="train")
    ti = FakeTaskInstance(xcoms={"prepare": {"dataset": DATASET}})
    first = deferral(train, ti)
    assert first.trigger.nonce
    assert place.store.get_json(f"leases/{first.trigger.lease_id}/watch.json") == {"nonce": first.trigger.nonce}
    place.engine.finish(first.trigger.base, exit_code=75)
    second = deferral(train, ti)
    assert second.trigger.lease_id.endswith("-g2")
    place.engine.finish(second.trigger.base, exit_code=0, result={"steps": 5})
    assert train.execute(context(ti)) == {"steps": 5, "interruptions": 1}


def test_the_training_request_carries_the_plan(place: Installation, digits: Workload, planned: None) -> None:
    run = write_run(place, digits)
    requests = []
    place.engine.submit = lambda lease_id, ticket, request: requests.append(request)
    deferral(ResumableTrainingOperator(task_id="train"), FakeTaskInstance(xcoms={"prepare": {"dataset": DATASET}}))
    request = JobRequest.model_validate(requests[0])
    assert request.layout is not None
    assert request.layout.micro_batch == run.workload.training.batch_size
    assert request.checkpoint_every_steps
