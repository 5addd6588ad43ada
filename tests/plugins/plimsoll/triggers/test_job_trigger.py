"""The watch over one attempt: end, loss, silence, and what happens when a person kills the task."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from include.core.store import ObjectStore
from plimsoll.triggers import job_trigger
from plimsoll.triggers.job_trigger import JobTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger
from tests.support.eventually import eventually

BASE, LEASE = "runs/w/r/jobs/train-1", "train-x-g1"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setenv("PLIMSOLL_STORE", f"file://{tmp_path / 'store'}")
    monkeypatch.setattr(job_trigger, "_POLL_S", 0.01)
    return ObjectStore(f"file://{tmp_path / 'store'}")


def watch(lost_after_s: float = 0.2, nonce: str = "", **terms) -> JobTrigger:
    return JobTrigger(base=BASE, lease_id=LEASE, lost_after_s=lost_after_s, nonce=nonce, **terms)


def first_event(trigger) -> dict:
    async def run() -> dict:
        return (await trigger.run().__anext__()).payload

    return asyncio.run(asyncio.wait_for(run(), timeout=10))


def test_an_exited_job_is_reported_after_its_whole_log(store: ObjectStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.put(f"{BASE}/log/000001", b"step 1\nstep 2\n")
    store.put(f"{BASE}/log/000002", b"step 3\n")
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "exited", "chunks": 2})
    assert first_event(watch())["status"] == "exited"
    assert "step 3" in capsys.readouterr().out


def test_an_ended_lease_is_a_lost_job(store: ObjectStore) -> None:
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "running"})
    store.put_json(f"leases/{LEASE}/heartbeat.json", {"sequence": 9, "state": "ended", "reason": "expired"})
    assert first_event(watch()).items() >= {"status": "lost", "lease_id": LEASE, "why": "expired"}.items()


def test_a_job_that_finished_before_its_lease_ended_is_not_lost(store: ObjectStore) -> None:
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "exited", "chunks": 0})
    store.put_json(f"leases/{LEASE}/heartbeat.json", {"sequence": 9, "state": "ended", "reason": "idle"})
    assert first_event(watch())["status"] == "exited"


def test_silence_is_a_loss(store: ObjectStore) -> None:
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "running"})
    assert first_event(watch())["why"] == "silent"


def test_a_beating_agent_is_not_silent(store: ObjectStore) -> None:
    async def beat() -> None:
        for sequence in range(1, 12):
            await store.put_json_async(f"leases/{LEASE}/heartbeat.json", {"sequence": sequence, "state": "busy"})
            await asyncio.sleep(0.1)
        await store.put_json_async(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "exited", "chunks": 0})

    async def both() -> dict:
        beating = asyncio.create_task(beat())
        event = await watch(lost_after_s=0.6).run().__anext__()
        await beating
        return event.payload

    assert asyncio.run(both())["status"] == "exited"


@pytest.mark.parametrize(("nonce", "stopped"), [("mine", True), ("somebody-elses", False)])
def test_kill_stops_the_lease_only_if_nobody_came_back(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, nonce: str, stopped: bool
) -> None:
    monkeypatch.setattr(job_trigger, "_GRACE_S", 0.0)
    store.put_json(f"leases/{LEASE}/watch.json", {"nonce": nonce})
    asyncio.run(watch(nonce="mine").on_kill())
    assert store.exists(f"leases/{LEASE}/stop.json") is stopped


def test_kill_stops_the_lease_although_airflow_cancels_it_again_and_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_trigger, "_GRACE_S", 0.2)
    store.put_json(f"leases/{LEASE}/watch.json", {"nonce": "mine"})

    async def cancelled_anew() -> None:
        killing = asyncio.create_task(watch(nonce="mine").on_kill())
        await asyncio.sleep(0.05)
        killing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await killing
        assert not store.exists(f"leases/{LEASE}/stop.json")
        await eventually(lambda: store.exists(f"leases/{LEASE}/stop.json"), within_s=5)

    asyncio.run(cancelled_anew())


def test_kill_never_stops_a_shared_lease(store: ObjectStore) -> None:
    asyncio.run(watch(nonce="").on_kill())
    assert not store.exists(f"leases/{LEASE}/stop.json")


def test_a_lease_is_ready_when_its_agent_beats(store: ObjectStore) -> None:
    store.put_json(f"leases/{LEASE}/heartbeat.json", {"sequence": 1, "state": "idle"})
    assert first_event(LeaseReadyTrigger(lease_id=LEASE)) == {"status": "idle", "lease_id": LEASE}
