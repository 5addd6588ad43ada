"""What starts by itself: a cron tick and an asset event start one run each, and unchanged inputs cost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live_run import LiveRun
from tests.support.real_stack import RealStack
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]


@pytest.fixture
def awake(stack: RealStack) -> Iterator[RealStack]:
    """Both scheduled workloads run by themselves for the time of the test."""
    stack.ready("ticking", "listening")
    yield stack
    for dag_id in ("ticking", "listening"):
        stack.pause(dag_id)


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


def test_a_tick_and_an_event_start_one_run_each_and_unchanged_inputs_end_as_skipped(awake):
    stack = awake
    assert runs_of(stack, "listening") == []
    send_event(stack, "raw/drill")
    by_event = nth_run(stack, "listening", 0, within_s=60)
    by_tick = nth_run(stack, "ticking", 0, within_s=90)
    assert by_event.wait_end(within_s=200) == "success", by_event.task_states()
    assert by_tick.wait_end(within_s=200) == "success", by_tick.task_states()
    assert len(runs_of(stack, "listening")) == 1
    for run, started_by in ((by_event, "asset"), (by_tick, "schedule")):
        assert len(run.leases("train")) == 1
        assert stack.store().get_json(f"{run.prefix}/run.json")["started_by"] == started_by
        run.assert_nothing_left("train", "work")
    assert runs_of(stack, "listening")[0]["logical_date"] is None

    send_event(stack, "raw/drill")
    second_event = nth_run(stack, "listening", 1, within_s=60)
    second_tick = nth_run(stack, "ticking", 1, within_s=90)
    stack.pause("ticking")
    for run in (second_event, second_tick):
        assert run.wait_end(within_s=90) == "success", run.task_states()
        assert_skipped_before_any_lease(run)
    assert len(runs_of(stack, "listening")) == 2
    ticks = [run["run_after"] for run in runs_of(stack, "ticking")]
    assert len(ticks) == len(set(ticks)), "a tick has started two runs"
