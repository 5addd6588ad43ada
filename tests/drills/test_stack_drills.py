"""Crash drills on the real Airflow stack: after each nothing is left running, nothing was trained twice, no failed run
is shown as a success, and every lease is settled.

Those that are also marked ``e2e`` belong to ``make test``; ``make drills`` runs all.
"""

from __future__ import annotations

import psutil
import pytest

from include.core.process import identify, is_alive
from tests.support.live_run import TRAIN, LiveRun
from tests.support.orphan import orphan_training
from tests.support.real_stack import RealStack, kill
from tests.support.waiting import eventually

pytestmark = [pytest.mark.drill, pytest.mark.stack, pytest.mark.timeout(700)]


@pytest.fixture(scope="session")
def begun(stack: RealStack) -> LiveRun:
    """The undisturbed run, perhaps still under way: it goes on beside the run of the first drill."""
    return LiveRun.begin(stack, "short-drill")


@pytest.fixture(scope="session")
def undisturbed(begun: LiveRun) -> LiveRun:
    """A run of the drills' workload to which nothing happened: what all others are compared with."""
    assert begun.wait_end() == "success", begun.task_states()
    begun.assert_nothing_left()
    return begun


@pytest.fixture
def reference(undisturbed: LiveRun) -> str:
    """Digest of the weights of an undisturbed training."""
    return str(undisturbed.stack.store().get_json(f"{undisturbed.prefix}/jobs/train-1/result.json")["weights_digest"])


def reasons(run: LiveRun) -> list[str | None]:
    return [attempt.reason for attempt in run.attempts()]


def reap(stack: RealStack) -> None:
    """Run the reaper once; at all other times it sleeps, so that no drill owes its end to it."""
    try:
        assert LiveRun.begin(stack, "lease_reaper").wait_end() == "success"
    finally:
        stack.pause("lease_reaper")


@pytest.mark.e2e
def test_kill_9_of_the_agent(stack, begun, request):
    run = LiveRun.begin(stack, "short-drill")
    run.wait_training(step=300)
    kill(run.agent())
    assert run.wait_end() == "success", run.task_states()
    assert reasons(run) == ["lost", "done"]
    assert len(run.leases()) == 2
    run.assert_trained_once(request.getfixturevalue("reference"))
    assert run.tasks()[TRAIN]["try_number"] == 1  # no retry of Airflow's was spent
    run.assert_nothing_left()


@pytest.mark.e2e
def test_run_marked_failed_while_it_trains(stack):
    run = LiveRun.begin(stack, "drill")
    run.wait_training(step=300)
    agent = run.agent()
    run.mark_failed()
    eventually(lambda: not is_alive(agent), within_s=30, what="the agent is gone")
    run.wait_task("seal", "failed", within_s=60)
    assert run.wait_end() == "failed"
    states = run.task_states()
    assert states["training.release"] == "success"
    assert states["compression.provision"] != "success"
    assert len(run.leases()) == 1
    assert run.leases("work") == ()
    run.assert_nothing_left("train", "work")


@pytest.mark.parametrize("half", ["parent", "runner"])
def test_kill_9_of_the_triggerer(stack, reference, half):
    run = LiveRun.begin(stack, "short-drill")
    run.wait_training(step=200)
    parent = stack.component("triggerer")
    runner = eventually(parent.children, what="the triggerer has its runner")[0]
    kill(parent if half == "parent" else runner)
    assert run.wait_end() == "success", run.task_states()
    assert reasons(run) == ["done"]
    assert run.tasks()[TRAIN]["try_number"] == 1
    run.assert_trained_once(reference)
    run.assert_nothing_left()
    stack.wait_healthy()


def test_kill_9_of_the_scheduler_and_its_workers(stack, reference):
    run = LiveRun.begin(stack, "short-drill")
    run.wait_training(step=200)
    scheduler = stack.component("scheduler")
    workers = [identify(child.pid) for child in scheduler.children(recursive=True)]
    agent = run.agent()
    kill(scheduler)
    for worker in workers:
        kill(worker)
    assert is_alive(agent)
    assert run.wait_end() == "success", run.task_states()
    assert reasons(run) == ["done"]
    run.assert_trained_once(reference)
    run.assert_nothing_left()
    stack.wait_healthy()


@pytest.mark.parametrize("victim", ["include.jobs train", "include.training.worker"])
def test_kill_9_of_the_job(stack, reference, victim):
    run = LiveRun.begin(stack, "short-drill")
    run.wait_training(step=300)
    agent = run.agent()
    last = max(run.processes(victim), key=psutil.Process.create_time)  # torchrun has the worker's name in its own line
    kill(last)
    assert run.wait_end() == "success", run.task_states()
    assert reasons(run) == ["signal", "done"]
    assert len(run.leases()) == 1, "the agent lives, so the job goes on upon the same lease"
    assert run.agent(run.leases()[0]) == agent
    run.assert_trained_once(reference)
    run.assert_nothing_left()


def test_kill_9_of_the_task_between_intent_and_launch(stack):
    run = LiveRun.begin(stack, "after-intent")
    process = run.wait_pause()
    assert len(run.leases("work")) == 1
    assert run.processes("include.compute.agent") == []
    kill(process)
    assert run.wait_end() == "success", run.task_states()
    assert len(run.leases("work")) == 1, "the second try launches the lease that the first had announced"
    assert run.tasks()["compression.provision"]["try_number"] == 2
    assert [attempt.reason for attempt in run.attempts("prepare")] == ["done"]
    run.assert_nothing_left("work")


def test_run_marked_failed_in_the_middle_of_a_recovery(stack):
    run = LiveRun.begin(stack, "slow-recovery")
    run.wait_training(step=300)
    kill(run.agent())
    recovering = run.wait_pause()
    run.mark_failed()
    run.wait_task("training.release", "success", within_s=60)
    run.go_on()
    eventually(lambda: not is_alive(recovering), within_s=30, what="the recovering task has ended")
    run.wait_task("seal", "failed", within_s=60)
    assert run.wait_end() == "failed"
    assert len(run.leases()) == 1, "the recovery has opened a lease in a group that was released"
    assert reasons(run) == ["lost"]
    run.assert_nothing_left()


def test_training_cleared_while_it_is_deferred(stack, reference):
    run = LiveRun.begin(stack, "short-drill")
    run.wait_training(step=200)
    agent = run.agent()
    assert run.clear(TRAIN) >= {"training.provision", TRAIN, "training.release"}
    assert run.wait_end() == "success", run.task_states()
    assert len(run.leases()) == 1, "the cleared task re-attaches"
    assert run.agent(run.leases()[0]) == agent
    assert reasons(run) == ["done"]
    assert run.tasks()[TRAIN]["try_number"] == 2
    run.assert_trained_once(reference)
    run.assert_nothing_left()


def test_training_cleared_after_the_run_had_succeeded(stack, reference):
    run = LiveRun.begin(stack, "short-drill")
    assert run.wait_end() == "success"
    run.clear(TRAIN)
    eventually(lambda: len(run.leases()) == 2, within_s=60, what="a lease of the next generation")
    assert run.wait_end() == "success", run.task_states()
    assert reasons(run) == ["done", "done"]
    first, second = run.training()
    assert second.resumed_step == second.last_executed_step == first.last_executed_step, "no step was executed again"
    run.assert_trained_once(reference)
    run.assert_nothing_left()


def test_two_runs_at_once(stack, reference):
    runs = [LiveRun.begin(stack, dag_id) for dag_id in ("short-drill", "short-drill-too")]
    assert [run.wait_end(within_s=400) for run in runs] == ["success", "success"]
    for run in runs:
        assert reasons(run) == ["done"]
        assert len(run.leases()) == 1
    runs[0].assert_trained_once(reference)
    assert runs[1].digest() != reference
    assert set(runs[0].leases()).isdisjoint(runs[1].leases())
    runs[0].assert_nothing_left()
    runs[1].assert_nothing_left()


def test_launch_marked_failed_while_it_runs(stack):
    run = LiveRun.begin(stack, "after-launch")
    run.wait_pause()
    agent = run.agent(run.leases("work")[0])
    run.mark_task_failed("compression.provision")
    eventually(lambda: not is_alive(agent), within_s=30, what="the launching task has ended its own lease")
    assert run.wait_end() == "failed"
    run.assert_nothing_left("work")


def test_trigger_alone_ends_a_lease_that_nobody_releases(stack):
    run = LiveRun.begin(stack, "unguarded")
    run.wait_training(step=300)
    agent = run.agent()
    run.mark_failed()
    eventually(lambda: not is_alive(agent), within_s=45, what="the trigger has told the agent to leave")
    heartbeat = stack.store().get_json(f"leases/{run.leases()[0]}/heartbeat.json")
    assert heartbeat["reason"] == "stopped"
    assert run.state() == "failed"
    reap(stack)
    run.assert_nothing_left()


def test_reaper_alone_ends_an_orphan(stack, undisturbed):
    with orphan_training(undisturbed, "for-the-reaper", lease_idle_s=600.0) as lease_id:
        agent = undisturbed.agent(lease_id)
        reap(stack)
        assert not is_alive(agent)
        ended = next(e for e in stack.ledger().events(kind="ended") if e.lease_id == lease_id)
        assert ended.reason.startswith("reaper: its run is success")
        undisturbed.assert_nothing_left()
        charges = stack.ledger().charges(dag_id=undisturbed.dag_id, run_id=undisturbed.run_id)
        assert [charge.lease_id for charge in charges].count(lease_id) == 1


def test_agent_alone_ends_itself_when_its_lease_expires(stack, undisturbed):
    with orphan_training(undisturbed, "expiring", lease_expires_s=6.0) as lease_id:
        agent = undisturbed.agent(lease_id)
        eventually(lambda: not is_alive(agent), within_s=30, what="the agent has left by itself")
        assert stack.store().get_json(f"leases/{lease_id}/heartbeat.json")["reason"] == "expired"
        eventually(lambda: not stack.job_processes(), what="its job went with it")
