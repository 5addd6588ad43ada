"""``make cancel`` on the real stack: one command ends a run in any state, and what it proves is true."""

from __future__ import annotations

import json

import pytest

from include.core.errors import GroupClosedError
from include.core.ids import group_id
from include.core.process import is_alive
from stack import cancel
from tests.support.live_run import LiveRun
from tests.support.real_stack import kill, variables
from tests.support.waiting import eventually

pytestmark = [pytest.mark.drill, pytest.mark.stack, pytest.mark.timeout(700)]


def cancelled(run: LiveRun, capsys: pytest.CaptureFixture[str]) -> dict:
    """What the command reports; it has to have proved that nothing is left."""
    capsys.readouterr()
    with variables(run.stack.environment):
        status = cancel.main(["--run", f"{run.dag_id}/{run.run_id}", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert (status, report["left"], report["problems"]) == (0, [], [])
    return report


def assert_over(run: LiveRun) -> None:
    assert run.wait_end() == "failed"
    run.assert_nothing_left()
    group = group_id(dag_id=run.dag_id, run_id=run.run_id, group="train")
    with pytest.raises(GroupClosedError):
        run.stack.ledger().intent(group_id=group, dag_id=run.dag_id, run_id=run.run_id)


def test_a_run_whose_training_is_deferred(stack, capsys):
    run = LiveRun.begin(stack, "drill")
    run.wait_training(step=300)
    agent = run.agent()
    report = cancelled(run, capsys)
    assert report["airflow"] == "marked failed"
    assert not is_alive(agent)
    assert_over(run)
    assert any("/checkpoints/" in key for key, _ in stack.store().list(run.prefix))
    assert cancelled(run, capsys)["airflow"] == "it was failed already"


def test_a_run_in_the_middle_of_a_recovery(stack, capsys):
    run = LiveRun.begin(stack, "slow-recovery")
    run.wait_training(step=300)
    kill(run.agent())
    recovering = run.wait_pause()
    cancelled(run, capsys)
    run.go_on()
    eventually(lambda: not is_alive(recovering), within_s=30, what="the recovering task has ended")
    assert_over(run)
    assert len(run.leases()) == 1, "the recovery has opened a lease after the run was cancelled"
