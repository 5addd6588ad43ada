"""The job operator: defer, resume, finish, fail; every entry point does the same."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from include.compute.driver import JobFailedError
from include.config.job_messages import JobRequest
from include.config.workload import Workload
from plimsoll.hooks.installation import Installation
from plimsoll.operators.resumable_training import ResumableTrainingOperator
from plimsoll.operators.run_job import RunJobOperator
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, write_run

DATASET = {"uri": "file:///d/manifest.json", "fingerprint": "abc", "rows": {"train": 10, "validation": 2, "test": 3}}


@pytest.fixture
def prepare() -> RunJobOperator:
    return RunJobOperator(task_id="prepare", kind="prepare")


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
