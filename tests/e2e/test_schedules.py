"""What starts by itself: a cron tick and an asset event start one run each, and unchanged inputs cost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live_run import ENDED, LiveRun
from tests.support.real_stack import RealStack
from tests.support.small_workloads import DIGITS_ASSET, DRILL_ASSET
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(700)]


@pytest.fixture
def ticking(stack: RealStack) -> Iterator[RealStack]:
    """The workload with a cron schedule runs by itself for the time of the test."""
    stack.ready("ticking")
    yield stack
    stack.pause("ticking")


def runs_of(stack: RealStack, dag_id: str) -> list[dict[str, Any]]:
    found = stack.api().pages(f"/api/v2/dags/{dag_id}/dagRuns?order_by=id", "dag_runs")
    return sorted(found, key=lambda run: run["queued_at"] or "")


def nth_run(stack: RealStack, dag_id: str, number: int, *, within_s: float) -> LiveRun:
    found = eventually(
        lambda: runs[number] if len(runs := runs_of(stack, dag_id)) > number else None,
        within_s=within_s,
        what=f"run {number} of {dag_id}",
        every_s=0.5,
    )
    return LiveRun(stack=stack, dag_id=dag_id, run_id=found["dag_run_id"])


def send_event(stack: RealStack, asset: str) -> None:
    api = stack.api()
    assets = api.pages("/api/v2/assets?only_active=true", "assets")
    asset_id = next(found["id"] for found in assets if found["name"] == asset)
    api.call("POST", "/api/v2/assets/events", {"asset_id": asset_id, "extra": {"from": "test"}})


def assert_skipped_before_any_lease(run: LiveRun) -> None:
    states = run.task_states()
    assert states["check_inputs"] == "skipped"
    assert states["training.train"] == "skipped"
    assert run.leases("train") == ()
    assert run.leases("work") == ()
    assert [
        event.kind for event in run.stack.ledger().events(dag_id=run.dag_id, run_id=run.run_id, kind="intent")
    ] == []


def started_by(run: LiveRun) -> str:
    return str(run.stack.store().get_json(f"{run.prefix}/run.json")["started_by"])


def assert_ran(run: LiveRun) -> None:
    assert run.wait_end() == "success", run.task_states()
    assert len(run.leases("train")) == 1
    run.assert_nothing_left("train", "work")


def test_an_event_starts_one_run_which_ends_as_skipped_when_nothing_is_new(digits_run, stack):
    before = len(runs_of(stack, "digits"))
    send_event(stack, DIGITS_ASSET)
    run = nth_run(stack, "digits", before, within_s=60)
    assert run.wait_end() == "success", run.task_states()
    assert_skipped_before_any_lease(run)
    assert started_by(run) == "asset"
    assert len(runs_of(stack, "digits")) == before + 1
    assert runs_of(stack, "digits")[-1]["logical_date"] is None


def test_a_tick_starts_one_run(ticking):
    run = nth_run(ticking, "ticking", 0, within_s=90)
    run.wait_task("start", "success", within_s=60)
    assert started_by(run) == "schedule"
    found = runs_of(ticking, "ticking")
    assert [(each["run_type"], each["dag_run_id"]) for each in found] == [("scheduled", run.run_id)]
    run.mark_failed()  # what such a run does is shown by the others
    run.wait_task("seal", *ENDED, within_s=60)
    assert run.wait_end(within_s=60) == "failed"  # Airflow judges the run after its last task has ended


@pytest.mark.long
def test_an_event_with_news_runs_everything(stack):
    stack.ready("listening")
    assert runs_of(stack, "listening") == []
    send_event(stack, DRILL_ASSET)
    run = nth_run(stack, "listening", 0, within_s=60)
    assert_ran(run)
    assert started_by(run) == "asset"
    assert len(runs_of(stack, "listening")) == 1


@pytest.mark.long
def test_a_tick_with_news_runs_everything_and_the_next_ends_as_skipped(ticking):
    before = len(runs_of(ticking, "ticking"))
    assert_ran(nth_run(ticking, "ticking", before, within_s=90))
    second = nth_run(ticking, "ticking", before + 1, within_s=90)
    # A paused DAG would not come to its end: Airflow then schedules none of its tasks.
    assert second.wait_end() == "success", second.task_states()
    assert_skipped_before_any_lease(second)
    ticks = [run["run_after"] for run in runs_of(ticking, "ticking")]
    assert len(ticks) == len(set(ticks)), "a tick has started two runs"
