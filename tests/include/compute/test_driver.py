"""The driver: submit, re-attach, recover, against the real ledger and an engine in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from include.compute.driver import Capacity, Finished, JobCall, JobDriver, JobFailedError, JobInputError, Waiting
from include.core.contracts.lease import LaunchRequest
from include.core.errors import GroupClosedError
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from tests.support.fake_engine import FakeEngine

DAG, RUN, GROUP = "digits", "manual__1", "train-abc"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    migrate(url)
    return Ledger(url)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def driver(file_store: ObjectStore, ledger: Ledger, engine: FakeEngine) -> JobDriver:
    return JobDriver(store=file_store, ledger=ledger, engine=engine, preemption_budget=2)


def launch(lease_id: str, generation: int) -> LaunchRequest:
    return LaunchRequest(lease_id=lease_id, group_id=GROUP, run_id=RUN, dag_id=DAG, expires_after_s=60)


CAPACITY = Capacity(group_id=GROUP, dag_id=DAG, run_id=RUN, launch=launch)


def request(attempt: int, base: str) -> dict[str, Any]:
    return {"attempt": attempt, "base": base}


CALL = JobCall(dag_id=DAG, run_id=RUN, run_prefix="runs/digits/r", kind="train", item="", request=request)
FIRST, SECOND = CALL.base(1), CALL.base(2)


def test_first_call_launches_one_lease_and_submits_one_attempt(driver: JobDriver, engine: FakeEngine) -> None:
    assert driver.advance(CALL, CAPACITY) == Waiting(lease_id=f"{GROUP}-g1", base=FIRST, attempt=1)
    assert engine.submitted == [(f"{GROUP}-g1", FIRST)]


def test_every_later_call_re_attaches(driver: JobDriver, engine: FakeEngine) -> None:
    for _ in range(3):
        driver.advance(CALL, CAPACITY)
    assert len(engine.requests) == 1
    assert engine.submitted == [(f"{GROUP}-g1", FIRST)]


def test_the_result_comes_back(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    engine.finish(FIRST, exit_code=0, result={"steps": 5})
    assert driver.advance(CALL, CAPACITY) == Finished(result={"steps": 5}, attempt=1)


def test_a_notice_replaces_the_lease(driver: JobDriver, engine: FakeEngine, ledger: Ledger) -> None:
    driver.advance(CALL, CAPACITY)
    engine.finish(FIRST, exit_code=75)
    assert driver.advance(CALL, CAPACITY) == Waiting(lease_id=f"{GROUP}-g2", base=SECOND, attempt=2)
    assert f"{GROUP}-g1" in engine.ended
    assert ledger.preemptions(dag_id=DAG, run_id=RUN, job="train") == 1


def test_death_by_signal_keeps_the_lease(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    engine.finish(FIRST, exit_code=-9)
    assert driver.advance(CALL, CAPACITY) == Waiting(lease_id=f"{GROUP}-g1", base=SECOND, attempt=2)
    assert engine.ended == {}


def test_a_lost_lease_is_ended_before_it_is_replaced(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    moved = driver.advance(CALL, CAPACITY, lost_lease=f"{GROUP}-g1")
    assert engine.ended[f"{GROUP}-g1"] == "lost"
    assert moved == Waiting(lease_id=f"{GROUP}-g2", base=SECOND, attempt=2)


def test_a_lost_lease_that_had_finished_is_not_paid_for_again(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    stop = engine.stop

    def finishes_while_it_is_stopped(lease_id: str, *, reason: str) -> str:
        engine.finish(FIRST, exit_code=0, result={"steps": 9})
        return stop(lease_id, reason=reason)

    engine.stop = finishes_while_it_is_stopped  # type: ignore[method-assign] # the race, made certain
    assert driver.advance(CALL, CAPACITY, lost_lease=f"{GROUP}-g1") == Finished(result={"steps": 9}, attempt=1)
    assert list(engine.requests) == [f"{GROUP}-g1"]


def test_suspicion_of_an_older_lease_is_ignored(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    engine.finish(FIRST, exit_code=75)
    driver.advance(CALL, CAPACITY)
    again = driver.advance(CALL, CAPACITY, lost_lease=f"{GROUP}-g1")
    assert again == Waiting(lease_id=f"{GROUP}-g2", base=SECOND, attempt=2)


def test_bad_input_is_for_a_person(driver: JobDriver, engine: FakeEngine, file_store: ObjectStore) -> None:
    driver.advance(CALL, CAPACITY)
    file_store.put_json(f"{FIRST}/outcome.json", {"status": "bad_input", "error": "label column absent"})
    engine.finish(FIRST, exit_code=64)
    with pytest.raises(JobInputError, match="label column absent"):
        driver.advance(CALL, CAPACITY)


def test_a_retry_after_an_error_is_a_new_attempt_on_the_same_lease(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    engine.finish(FIRST, exit_code=1)
    with pytest.raises(JobFailedError, match="exit code 1"):
        driver.advance(CALL, CAPACITY)
    assert driver.advance(CALL, CAPACITY) == Waiting(lease_id=f"{GROUP}-g1", base=SECOND, attempt=2)


def test_preemptions_have_a_budget(driver: JobDriver, engine: FakeEngine) -> None:
    driver.advance(CALL, CAPACITY)
    for attempt in (1, 2):
        engine.finish(CALL.base(attempt), exit_code=75)
        driver.advance(CALL, CAPACITY)
    engine.finish(CALL.base(3), exit_code=75)
    with pytest.raises(JobFailedError, match="the budget is 2"):
        driver.advance(CALL, CAPACITY)


def test_a_recovery_cannot_overtake_the_teardown(driver: JobDriver, engine: FakeEngine, ledger: Ledger) -> None:
    driver.advance(CALL, CAPACITY)
    ledger.close(GROUP, dag_id=DAG, run_id=RUN)
    engine.release(GROUP)
    with pytest.raises(GroupClosedError):
        driver.advance(CALL, CAPACITY)
    assert list(engine.requests) == [f"{GROUP}-g1"]


def test_a_crash_between_intent_and_launch_uses_the_same_lease(driver: JobDriver, engine: FakeEngine) -> None:
    launch_for_real = engine.launch

    def crash(request: LaunchRequest) -> Any:
        raise KeyboardInterrupt

    engine.launch = crash  # type: ignore[method-assign] # the process dies here
    with pytest.raises(KeyboardInterrupt):
        driver.ensure_lease(CAPACITY, reopen=True)
    engine.launch = launch_for_real  # type: ignore[method-assign] # the retry lives
    assert driver.ensure_lease(CAPACITY, reopen=True) == f"{GROUP}-g1"
    assert list(engine.requests) == [f"{GROUP}-g1"]


def test_a_crash_after_the_launch_makes_no_second_lease(
    driver: JobDriver, engine: FakeEngine, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: Ledger, **details: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "launched", crash)
        with pytest.raises(KeyboardInterrupt):
            driver.ensure_lease(CAPACITY, reopen=True)
    assert driver.ensure_lease(CAPACITY, reopen=True) == f"{GROUP}-g1"
    assert list(engine.requests) == [f"{GROUP}-g1"]


def test_a_dead_lease_is_replaced_at_launch(driver: JobDriver, engine: FakeEngine) -> None:
    driver.ensure_lease(CAPACITY, reopen=True)
    engine.ended[f"{GROUP}-g1"] = "the machine is gone"
    assert driver.ensure_lease(CAPACITY, reopen=True) == f"{GROUP}-g2"


def test_a_cleared_launch_replaces_a_lease_that_was_told_to_stop(driver: JobDriver, engine: FakeEngine) -> None:
    first = driver.ensure_lease(CAPACITY, reopen=True)
    engine.stopped.add(first)
    assert driver.ensure_lease(CAPACITY, reopen=True) == f"{GROUP}-g2"
    assert first in engine.ended


def test_a_recovery_does_not_relaunch_what_was_told_to_stop(driver: JobDriver, engine: FakeEngine) -> None:
    first = driver.ensure_lease(CAPACITY, reopen=True)
    engine.stopped.add(first)
    with pytest.raises(GroupClosedError):
        driver.ensure_lease(CAPACITY)
    assert list(engine.requests) == [first]
