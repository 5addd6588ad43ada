"""Each ticket is handed out once."""

from __future__ import annotations

from include.compute.job_queue import JobQueue
from include.compute.lease_keys import LeaseKeys
from include.compute.store_link import StoreLink
from include.core.clock import FakeClock
from include.core.contracts.lease import JobTicket
from include.core.json_codec import to_json

KEYS = LeaseKeys("train-abc-g1")


def queue_of(store, pid: int = 1) -> JobQueue:
    return JobQueue(keys=KEYS, link=StoreLink(store, FakeClock()), owner={"pid": pid})


def put(store, name: str) -> JobTicket:
    ticket = JobTicket(name=name, kind="train", base=f"base/{name}", request_uri=f"file:///{name}")
    store.put_json(KEYS.ticket(name), to_json(ticket))
    return ticket


def test_tickets_come_in_order_and_once(file_store):
    first, second = put(file_store, "a"), put(file_store, "b")
    queue = queue_of(file_store)
    assert [queue.take(), queue.take(), queue.take()] == [first, second, None]


def test_a_ticket_that_another_agent_claimed_is_left_alone(file_store):
    put(file_store, "a")
    assert queue_of(file_store, pid=1).take() is not None
    assert queue_of(file_store, pid=2).take() is None


def test_a_claim_whose_answer_was_lost_is_still_ours(file_store):
    ticket = put(file_store, "a")
    file_store.put_json(KEYS.claim("a"), {"pid": 1})
    assert queue_of(file_store, pid=1).take() == ticket


def test_an_unreadable_ticket_does_not_hold_up_the_next(file_store):
    file_store.put_json(KEYS.ticket("a"), {"nonsense": True})
    misnamed = put(file_store, "elsewhere")
    file_store.delete(KEYS.ticket("elsewhere"))
    file_store.put_json(KEYS.ticket("b"), to_json(misnamed))
    good = put(file_store, "c")
    assert queue_of(file_store).take() == good
