"""Where an attempt stands, from its documents alone."""

from __future__ import annotations

import pytest

from include.compute.job_polling import LAST_WORDS_S, poll_job
from include.core.clock import FakeClock
from include.core.contracts.lease import JobPhase, LeaseState

BASE = "runs/x/jobs/train-1"


def poll(store, state: LeaseState = LeaseState.RUNNING, clock: FakeClock | None = None):
    return poll_job(store, lease_id="train-abc-g1", base=BASE, lease_state=lambda: state, clock=clock or FakeClock())


def beat(store, **document: object) -> None:
    store.put_json(f"{BASE}/heartbeat.json", document)


@pytest.mark.parametrize("state", [LeaseState.STARTING, LeaseState.RUNNING])
def test_without_a_beat_it_is_queued(file_store, state):
    assert poll(file_store, state).phase is JobPhase.QUEUED


def test_with_a_beat_it_runs(file_store):
    beat(file_store, state="running")
    assert poll(file_store).phase is JobPhase.RUNNING


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "done"),
        (1, "job error"),
        (7, "job error"),
        (64, "bad input"),
        (75, "preempted with a committed checkpoint"),
        (-9, "killed by signal 9"),
    ],
)
def test_the_last_beat_tells_the_exit_code(file_store, code, reason):
    beat(file_store, state="exited", exit_code=code)
    state = poll(file_store, LeaseState.ENDED)
    assert (state.phase, state.exit_code, state.reason) == (JobPhase.EXITED, code, reason)


def test_a_result_waits_briefly_for_the_last_beat(file_store, monkeypatch):
    clock = FakeClock()
    beat(file_store, state="running")
    file_store.put_json(f"{BASE}/result.json", {"steps": 3})
    real_sleep = clock.sleep

    def sleep(seconds: float) -> None:
        real_sleep(seconds)
        if clock.monotonic() > 0.25:
            beat(file_store, state="exited", exit_code=0, usage={"wall_s": 9.0})

    monkeypatch.setattr(FakeClock, "sleep", lambda self, seconds: sleep(seconds))
    state = poll(file_store, clock=clock)
    assert (state.exit_code, state.result) == (0, {"steps": 3})
    assert clock.monotonic() < LAST_WORDS_S


def test_a_result_counts_although_the_agent_hangs(file_store):
    clock = FakeClock()
    beat(file_store, state="running")
    file_store.put_json(f"{BASE}/result.json", {"steps": 3})
    state = poll(file_store, clock=clock)
    assert (state.phase, state.exit_code, state.result) == (JobPhase.EXITED, 0, {"steps": 3})
    assert clock.monotonic() >= LAST_WORDS_S


def test_a_result_of_a_dead_agent_counts_at_once(file_store):
    clock = FakeClock()
    file_store.put_json(f"{BASE}/result.json", {"steps": 3})
    assert poll(file_store, LeaseState.ENDED, clock).phase is JobPhase.EXITED
    assert clock.monotonic() == 0.0


def test_last_words_written_between_two_looks_are_not_a_loss(file_store):
    def ended() -> LeaseState:
        beat(file_store, state="exited", exit_code=75)
        return LeaseState.ENDED

    state = poll_job(file_store, lease_id="train-abc-g1", base=BASE, lease_state=ended)
    assert (state.phase, state.exit_code) == (JobPhase.EXITED, 75)


def test_a_loss_says_how_and_when(file_store):
    assert poll(file_store, LeaseState.ENDED).reason == "the agent died before the job began"
    beat(file_store, state="running")
    file_store.put_json("leases/train-abc-g1/heartbeat.json", {"state": "ended", "reason": "expired"})
    state = poll(file_store, LeaseState.ENDED)
    assert (state.phase, state.reason) == (JobPhase.LOST, "the agent left (expired) while the job ran")
