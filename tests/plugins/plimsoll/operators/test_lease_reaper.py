"""The reaper ends what belongs to no live run, and only that."""

from __future__ import annotations

import pytest
from airflow.sdk.api.datamodels._generated import DagRunState
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from include.core.contracts.lease import LaunchRequest, LeaseState
from plimsoll.hooks.installation import Installation
from plimsoll.operators.lease_reaper import LeaseReaperOperator
from tests.support.task_context import FakeTaskInstance, context


def lease(place: Installation, *, group: str, run_id: str) -> str:
    intent = place.ledger.intent(group_id=group, dag_id="d" if run_id else "", run_id=run_id)
    place.engine.launch(
        LaunchRequest(
            lease_id=intent.lease_id, group_id=group, run_id=run_id, dag_id="d" if run_id else "", expires_after_s=60
        )
    )
    return intent.lease_id


def reap(states: dict[str, str], **kwargs) -> dict[str, str]:
    return report(states, **kwargs)["ended"]


def report(states: dict[str, str], **kwargs) -> dict:
    # What a task is told is no plain string: its `str` is not the word.
    ti = FakeTaskInstance(run_states={("d", run): DagRunState(state) for run, state in states.items()})
    return LeaseReaperOperator(task_id="reap", **kwargs).execute(context(ti))


class Answering(FakeTaskInstance):
    """Airflow's API answers with an error."""

    def __init__(self, status: int | None) -> None:
        super().__init__()
        self.status = status

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        detail = {"status_code": self.status, "message": "no"}
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_lease_of_a_finished_run_is_ended(place: Installation, state: str) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    assert list(reap({"r1": state})) == [lease_id]
    assert place.engine.describe(lease_id).state is LeaseState.ENDED
    assert place.ledger.open_leases() == ()


@pytest.mark.parametrize("state", ["running", "queued"])
def test_a_live_run_keeps_its_lease(place: Installation, state: str) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    assert reap({"r1": state}) == {}
    assert place.engine.describe(lease_id).state is LeaseState.RUNNING


def test_a_run_that_cannot_be_read_keeps_its_lease(place: Installation) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    assert reap({}) == {}
    assert place.engine.describe(lease_id).state is LeaseState.RUNNING


def test_a_lease_that_ended_with_nobody_there_to_settle_it_is_settled(place: Installation) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    place.engine.ended[lease_id] = "expired"
    assert list(reap({"r1": "failed"})) == [lease_id]
    assert place.ledger.open_leases() == ()


def test_a_lease_that_was_announced_and_never_launched_is_closed(place: Installation) -> None:
    intent = place.ledger.intent(group_id="train-1", dag_id="d", run_id="r1")
    assert list(reap({"r1": "failed"})) == [intent.lease_id]
    assert place.ledger.open_leases() == ()


def test_an_ended_lease_of_a_live_run_is_left_to_the_runs_own_recovery(place: Installation) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    place.engine.ended[lease_id] = "lost"
    assert reap({"r1": "running"}) == {}
    assert [entry.lease_id for entry in place.ledger.open_leases()] == [lease_id]


def test_the_shared_lease_belongs_to_no_run(place: Installation) -> None:
    lease_id = lease(place, group="control-1", run_id="")
    assert reap({}) == {}
    assert place.engine.describe(lease_id).state is LeaseState.RUNNING


def test_the_reason_names_the_state_of_the_run(place: Installation) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    assert reap({"r1": "failed"}) == {lease_id: "its run is failed"}


@pytest.mark.parametrize(("status", "ended"), [(404, True), (500, False), (None, False)])
def test_a_deleted_run_is_over_and_an_error_is_no_answer(
    place: Installation, status: int | None, *, ended: bool
) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    found = LeaseReaperOperator(task_id="reap").execute(context(Answering(status)))
    assert found["ended"] == ({lease_id: "its run is deleted"} if ended else {})
    assert (lease_id in found["suspect"]) is not ended


def test_every_end_is_an_alert_once(place: Installation) -> None:
    lease(place, group="train-1", run_id="r1")
    reap({"r1": "failed"})
    reap({"r1": "failed"})
    (alert,) = place.ledger.events(kind="alert")
    assert [event.body["channel"] for event in place.ledger.events(kind="alert_sent")] == ["log"]
    assert alert.body["kind"] == "reaper"
    assert (alert.dag_id, alert.run_id) == ("d", "r1")


def test_what_happened_is_told_by_the_same_pass(place: Installation, caplog: pytest.LogCaptureFixture) -> None:
    lease(place, group="train-1", run_id="r1")
    reap({"r1": "failed"})
    assert "run=r1 dag=d reaper:" in caplog.text
    assert [event.body["channel"] for event in place.ledger.events(kind="alert_sent")] == ["log"]


def test_a_lease_that_cannot_be_ended_holds_up_no_other_and_fails_the_pass(
    place: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (lease(place, group=f"train-{number}", run_id="r1") for number in (1, 2))
    stop = place.engine.stop

    def stubborn(lease_id: str, *, reason: str) -> str:
        if lease_id == bad:
            raise OSError("no")
        return stop(lease_id, reason=reason)

    monkeypatch.setattr(place.engine, "stop", stubborn)
    with pytest.raises(RuntimeError, match=f"lease {bad} cannot be ended: no"):
        reap({"r1": "failed"})
    assert place.engine.describe(good).state is LeaseState.ENDED
    assert [entry.lease_id for entry in place.ledger.open_leases()] == [bad]


def test_the_form_decides_what_the_pass_may_do() -> None:
    assert set(LeaseReaperOperator.template_fields) == {"dry_run", "cap"}


@pytest.mark.parametrize("word", ["False", "false", False])
def test_no_dry_run_unless_it_is_asked_for(place: Installation, word: object) -> None:
    lease(place, group="train-1", run_id="r1")
    reap({"r1": "failed"}, dry_run=word)
    assert place.ledger.open_leases() == ()


@pytest.mark.parametrize("word", ["True", True])
def test_a_dry_run_only_reports(place: Installation, word: object) -> None:
    lease_id = lease(place, group="train-1", run_id="r1")
    assert list(reap({"r1": "failed"}, dry_run=word)) == [lease_id]
    assert place.engine.describe(lease_id).state is LeaseState.RUNNING


def test_too_many_orphans_are_refused_as_a_whole(place: Installation) -> None:
    leases = [lease(place, group=f"train-{number}", run_id="r1") for number in range(3)]
    with pytest.raises(RuntimeError, match="3 leases have no right to be there, limit 2"):
        reap({"r1": "failed"}, cap="2")
    assert all(place.engine.describe(lease_id).state is LeaseState.RUNNING for lease_id in leases)
