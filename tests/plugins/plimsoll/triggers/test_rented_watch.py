"""The watch over a job on rented capacity: machines that come up slowly or go away, budgets, advice, other looks."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from include.core.store import ObjectStore
from plimsoll.hooks import aws_clients, instance_watch
from plimsoll.triggers import job_trigger, lease_ready_trigger, silence
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.job_trigger import JobTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger
from tests.support.eventually import eventually

BASE, LEASE = "runs/w/r/jobs/train-1", "train-x-g1"
INSTANCES = {"region": "us-east-1", "ids": ["i-0123456789abcdef0"]}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setenv("PLIMSOLL_STORE", f"file://{tmp_path / 'store'}")
    for module in (job_trigger, lease_ready_trigger):
        monkeypatch.setattr(module, "_POLL_S", 0.01)
    monkeypatch.setattr(instance_watch, "SILENT_S", 0.05)
    monkeypatch.setattr(instance_watch, "_BETWEEN_S", 0.05)
    return ObjectStore(f"file://{tmp_path / 'store'}")


def watch(**terms: Any) -> JobTrigger:
    return JobTrigger(**{"base": BASE, "lease_id": LEASE, "lost_after_s": 60.0, **terms})


def first_event(trigger: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        return (await anext(trigger.run())).payload

    return asyncio.run(asyncio.wait_for(run(), timeout=10))


def working(store: ObjectStore, **lease: Any) -> None:
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "running"})
    store.put_json(f"leases/{LEASE}/heartbeat.json", {"sequence": 9, "state": "busy", **lease})


def ec2_says(monkeypatch: pytest.MonkeyPatch, *answers: str | Exception) -> list[tuple[str, list[str]]]:
    asked: list[tuple[str, list[str]]] = []

    async def answer(region: str, ids: list[str]) -> str:
        asked.append((region, ids))
        found = answers[min(len(asked), len(answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(instance_watch, "gone_instance", answer)
    return asked


def test_a_machine_may_take_its_time_to_come_up(store: ObjectStore) -> None:
    began = time.monotonic()
    event = first_event(watch(lost_after_s=0.05, boot_until=time.time() + 0.4, boot_s=900.0))
    assert (event["status"], event["why"]) == ("lost", "silent")
    assert time.monotonic() - began > 0.3


def test_a_clock_that_jumped_makes_no_endless_wait_for_a_machine(store: ObjectStore) -> None:
    assert first_event(watch(lost_after_s=0.05, boot_until=time.time() + 1e6, boot_s=0.1))["why"] == "silent"


def test_a_machine_that_came_up_is_held_to_its_heartbeats(store: ObjectStore) -> None:
    working(store)
    assert first_event(watch(lost_after_s=0.1, boot_until=time.time() + 900, boot_s=900.0))["why"] == "silent"


def test_a_terminated_instance_is_a_loss_long_before_its_silence_is(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    working(store)
    asked = ec2_says(monkeypatch, "", "i-0123456789abcdef0 is terminated")
    event = first_event(watch(instances=INSTANCES))
    assert (event["status"], event["why"]) == ("lost", "i-0123456789abcdef0 is terminated")
    assert asked == [("us-east-1", INSTANCES["ids"])] * 2


def test_while_a_lease_beats_nobody_asks_for_its_instances(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_watch, "SILENT_S", 0.5)
    asked = ec2_says(monkeypatch, "i-0 is terminated")

    async def beat_then_exit() -> dict[str, Any]:
        async def beat() -> None:
            for sequence in range(1, 20):
                await store.put_json_async(f"leases/{LEASE}/heartbeat.json", {"sequence": sequence, "state": "busy"})
                await asyncio.sleep(0.04)
            await store.put_json_async(f"{BASE}/heartbeat.json", {"sequence": 1, "state": "exited", "chunks": 0})

        beating = asyncio.create_task(beat())
        event = await anext(watch(instances=INSTANCES).run())
        await beating
        return event.payload

    assert asyncio.run(beat_then_exit())["status"] == "exited"
    assert asked == []


def test_a_question_that_fails_leaves_it_to_the_silence(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working(store)
    asked = ec2_says(monkeypatch, PermissionError("no"))
    event = first_event(watch(instances=INSTANCES, lost_after_s=0.4))
    assert event["why"] == "silent"
    assert len(asked) > 1
    complaints = [record for record in caplog.records if "cannot be asked" in record.message]
    assert [record.levelname for record in complaints].count("WARNING") == 1


def test_a_question_that_never_ends_leaves_it_to_the_silence(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    working(store)
    monkeypatch.setattr(instance_watch, "gone_instance", lambda *_: asyncio.sleep(100.0, ""))
    began = time.monotonic()
    assert first_event(watch(instances=INSTANCES, lost_after_s=0.3))["why"] == "silent"
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    ("lease_usd", "warned", "status"),
    [("5.00", False, "budget_80"), ("7.00", True, "budget_reached"), ("7.00", False, "budget_reached")],
)
def test_a_crossed_mark_of_the_budget_is_told(store: ObjectStore, lease_usd: str, warned: bool, status: str) -> None:
    working(store, spend_usd=lease_usd)
    event = first_event(watch(budget={"limit_usd": "10", "spent_usd": "3", "warned": warned}))
    assert (event["status"], event["spend_usd"], event["lease_id"]) == (status, lease_usd, LEASE)


@pytest.mark.parametrize(("lease_usd", "warned"), [("4.99", False), ("6.99", True), (None, False)])
def test_an_uncrossed_or_unknown_spend_tells_nothing(store: ObjectStore, lease_usd: str | None, warned: bool) -> None:
    working(store, spend_usd=lease_usd)
    budget = {"limit_usd": "10", "spent_usd": "3", "warned": warned}
    assert first_event(watch(budget=budget, lost_after_s=0.1))["why"] == "silent"


def test_an_agent_that_was_asked_to_leave_and_stays_counts_as_lost(store: ObjectStore) -> None:
    working(store)
    assert first_event(watch(leave_by=time.time() + 0.1))["why"] == "the agent was asked to leave and did not"


def test_advice_to_move_away_is_told_once(store: ObjectStore) -> None:
    working(store, rebalance_at="2026-11-30T12:00:00Z")
    first = first_event(watch())
    assert (first["status"], first["rebalance_seen"]) == ("rebalance", "2026-11-30T12:00:00Z")
    again = first_event(watch(rebalance_seen=first["rebalance_seen"], lost_after_s=0.1))
    assert again["status"] == "lost"
    assert again["rebalance_seen"] == first["rebalance_seen"]


def test_it_comes_back_when_another_look_may_pay(store: ObjectStore) -> None:
    working(store)
    assert first_event(watch(look_again_s=0.05))["status"] == "look_again"


def test_the_log_goes_on_where_an_earlier_watch_left_it(store: ObjectStore, capsys: pytest.CaptureFixture[str]) -> None:
    working(store, spend_usd="9")
    store.put(f"{BASE}/log/000001", b"first line\n")
    store.put(f"{BASE}/log/000002", b"second line\n")
    event = first_event(watch(budget={"limit_usd": "10", "spent_usd": "0", "warned": False}))
    assert (event["base"], event["printed"]) == (BASE, 2)
    store.put(f"{BASE}/log/000003", b"third line\n")
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 2, "state": "exited", "chunks": 3})
    assert first_event(watch(printed=event["printed"]))["printed"] == 3
    said = capsys.readouterr().out
    assert [said.count(f"{word} line") for word in ("first", "second", "third")] == [1, 1, 1]


def test_a_lease_that_does_not_come_up_in_time_is_told(store: ObjectStore) -> None:
    event = first_event(LeaseReadyTrigger(lease_id=LEASE, until=time.time() + 0.1, boot_s=900.0))
    assert event == {"status": "silent", "lease_id": LEASE}


def test_a_machine_that_goes_away_while_it_comes_up_is_told(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2_says(monkeypatch, "i-0123456789abcdef0 is shutting-down")
    trigger = LeaseReadyTrigger(lease_id=LEASE, until=time.time() + 900, boot_s=900.0, instances=INSTANCES)
    assert first_event(trigger) == {"status": "gone", "lease_id": LEASE, "why": "i-0123456789abcdef0 is shutting-down"}


def test_a_wait_for_capacity_ends_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic()
    assert first_event(CapacityTrigger(retry_after_s=0.2)) == {"status": "ask_again"}
    assert 0.15 < time.monotonic() - began < 5.0


def test_a_restarted_triggerer_does_not_begin_the_wait_anew() -> None:
    began = time.monotonic()
    first_event(CapacityTrigger(retry_after_s=3600.0, until=time.time() - 1.0))
    assert time.monotonic() - began < 1.0


def test_a_clock_that_was_set_back_makes_no_longer_wait() -> None:
    began = time.monotonic()
    first_event(CapacityTrigger(retry_after_s=0.1, until=time.time() + 1e6))
    assert time.monotonic() - began < 5.0


def test_ec2_is_asked_with_the_keys_of_the_engines_connection(
    s3_environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    keys = {"conn_type": "aws", "login": "of-connection", "password": "secret"}
    monkeypatch.setenv("AIRFLOW_CONN_PLIMSOLL_AWS", json.dumps(keys))
    client = boto3.client("ec2", region_name="eu-north-1")
    image = client.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    run = client.run_instances(ImageId=image, MinCount=2, MaxCount=2, InstanceType="t3.micro")
    ids = [instance["InstanceId"] for instance in run["Instances"]]
    asked_by: list[str] = []
    ask = instance_watch._gone

    def remembering(asking: Any, wanted: list[str]) -> str:
        asked_by.append(asking._request_signer._credentials.access_key)
        return ask(asking, wanted)

    monkeypatch.setattr(instance_watch, "_gone", remembering)
    monkeypatch.setattr(aws_clients, "_engine_client", aws_clients._engine_client.__wrapped__)
    assert asyncio.run(instance_watch.gone_instance("eu-north-1", ids)) == ""
    client.terminate_instances(InstanceIds=ids[1:])
    assert asyncio.run(instance_watch.gone_instance("eu-north-1", ids)) == f"{ids[1]} is terminated"
    assert asked_by == ["of-connection"] * 2


class BrokenStore:
    """A store that fails for a while, as an object store in an outage does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: int, each_s: float = 0.0) -> None:
        self.left, self.each_s = fails, each_s
        read = ObjectStore.get_async

        async def reading(store: ObjectStore, key: str) -> bytes | None:
            if self.left > 0:
                self.left -= 1
                await asyncio.sleep(each_s)
                raise ConnectionError("the store does not answer")
            return await read(store, key)

        monkeypatch.setattr(ObjectStore, "get_async", reading)


def test_an_outage_of_the_store_is_no_silence_of_the_lease(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working(store)
    broken = BrokenStore(monkeypatch, fails=5, each_s=0.1)

    async def watched() -> dict[str, Any]:
        async def beat_again() -> None:
            await eventually(lambda: not broken.left)
            await asyncio.sleep(0.1)
            store.put_json(f"{BASE}/heartbeat.json", {"sequence": 2, "state": "exited", "chunks": 0})

        beating = asyncio.create_task(beat_again())
        event = await anext(watch(lost_after_s=0.3).run())
        await beating
        return event.payload

    assert asyncio.run(watched())["status"] == "exited"
    assert [record.message for record in caplog.records].count(
        "the store does not answer, this watch goes on: the store does not answer"
    ) == 1


def test_an_outage_without_end_fails_the_watch(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    BrokenStore(monkeypatch, fails=10**9)
    monkeypatch.setattr(silence, "_LONGEST_OUTAGE_S", 0.1)
    for trigger in (watch(), LeaseReadyTrigger(lease_id=LEASE, until=time.time() + 900, boot_s=900.0)):
        with pytest.raises(ConnectionError):
            first_event(trigger)


def test_lines_that_were_printed_before_an_outage_are_not_printed_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, word in enumerate(("first", "second"), start=1):
        store.put(f"{BASE}/log/{number:06d}", f"{word} line\n".encode())
    store.put_json(f"{BASE}/heartbeat.json", {"sequence": 2, "state": "exited", "chunks": 2})
    read, failed = ObjectStore.get_async, []

    async def reading(found: ObjectStore, key: str) -> bytes | None:
        if key.endswith("log/000002") and not failed:
            failed.append(key)
            raise ConnectionError("the store does not answer")
        return await read(found, key)

    monkeypatch.setattr(ObjectStore, "get_async", reading)
    assert first_event(watch())["printed"] == 2
    said = capsys.readouterr().out
    assert [said.count(f"{word} line") for word in ("first", "second")] == [1, 1]
