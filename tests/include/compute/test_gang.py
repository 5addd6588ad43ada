"""Who is which node, whether all of them live, and what they pass on to each other; on a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from obstore.exceptions import GenericError

from include.compute.departures import Departure
from include.compute.gang import Gang, take_rank
from include.compute.lease_keys import LeaseKeys
from include.compute.pace import Pace
from include.compute.store_link import StoreLink
from include.core.clock import FakeClock
from include.core.contracts.lease import JobTicket
from include.core.contracts.usage import Energy, Usage
from include.core.heartbeat import LeaseHeartbeat
from include.core.json_codec import to_json
from include.core.store import ObjectStore

KEYS = LeaseKeys("train-abc-g1")
PACE = Pace(beat_s=1.0, node_silence_s=20.0, gather_s=300.0)
TICKET = JobTicket(name="run.train-1", kind="train", base="runs/d/r/jobs/train-1", request_uri="file:///x")
USAGE = Usage(wall_s=1.0, cpu_s=2.0, max_rss_bytes=3, energy=Energy(kwh=None, gco2e=None, method="unknown"))
NodeOf = Callable[[int], Gang]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def node(file_store: ObjectStore, clock: FakeClock) -> NodeOf:
    def build(rank: int) -> Gang:
        link = StoreLink(file_store, clock)
        return Gang(rank=rank, nodes=3, address="127.0.0.1", keys=KEYS, link=link, pace=PACE, clock=clock)

    return build


def beat(store: ObjectStore, rank: int, sequence: int, *, reason: str = "") -> None:
    state = "ended" if reason else "idle"
    document = LeaseHeartbeat(sequence=sequence, at="", state=state, reason=reason, usage=USAGE)
    store.put_json(KEYS.beat_of(rank), to_json(document))


def test_each_agent_gets_a_place_and_the_next_one_none(any_store):
    agents = [{"pid": number} for number in range(4)]
    found = [take_rank(any_store, KEYS, instances=3, document=agent) for agent in agents]
    assert found == [0, 1, 2, None]
    assert any_store.get_json(KEYS.owner) == agents[0]
    assert any_store.get_json(KEYS.node(2)) == agents[2]
    # The answer to its own claim was lost: the same agent asks again and finds itself.
    assert take_rank(any_store, KEYS, instances=3, document=agents[1]) == 1


def test_a_lease_of_one_instance_has_an_owner_and_no_nodes(file_store):
    assert take_rank(file_store, KEYS, instances=1, document={"pid": 1}) == 0
    assert take_rank(file_store, KEYS, instances=1, document={"pid": 2}) is None
    assert not file_store.exists(KEYS.node(0))


def test_it_is_complete_once_every_node_beats_and_no_longer(node, file_store, clock):
    first = node(0)
    beat(file_store, 1, 1)
    first.watch()
    assert not first.complete
    beat(file_store, 2, 1)
    clock.sleep(1.0)
    first.watch()
    assert first.complete
    assert len(first.usages()) == 2
    clock.sleep(5.0)
    assert not first.complete
    assert first.departure() is None  # a moment of silence: nothing new is begun, nothing is given up


def test_a_silent_node_is_lost_and_one_that_never_came_is_waited_for_longer(node, file_store, clock):
    first = node(0)
    beat(file_store, 1, 1)
    first.watch()
    clock.sleep(21.0)
    first.watch()
    assert first.departure() == Departure(reason="node_lost")

    late = node(0)
    for step in range(25):
        beat(file_store, 1, 10 + step)
        clock.sleep(11.0)
        late.watch()
        assert late.departure() is None
    clock.sleep(30.0)
    beat(file_store, 1, 99)
    late.watch()
    assert late.departure() == Departure(reason="node_lost")


def test_others_watch_the_first_node_alone(node, file_store, clock):
    second = node(1)
    beat(file_store, 0, 1)
    second.watch()
    clock.sleep(10.0)
    second.watch()
    assert second.departure() is None
    beat(file_store, 0, 2, reason="budget")
    clock.sleep(1.0)
    second.watch()
    assert second.departure() == Departure(reason="budget")


def test_silence_of_the_store_is_not_the_silence_of_a_node(node, file_store, clock, monkeypatch):
    first = node(0)
    for rank in (1, 2):
        beat(file_store, rank, 1)
    first.watch()

    def away(*_: object) -> None:
        raise GenericError("error sending request")

    with monkeypatch.context() as outage:
        outage.setattr(ObjectStore, "get_json", away)
        for _ in range(12):
            clock.sleep(5.0)
            first.watch()
    assert first.departure() is None
    clock.sleep(3.0)
    first.watch()  # nobody can have beaten meanwhile: they had no store either
    assert first.departure() is None


def test_a_job_of_all_nodes_is_taken_once_with_the_place_where_they_meet(node, any_store, clock):
    link = StoreLink(any_store, clock)
    first, second = (
        Gang(rank=rank, nodes=3, address="127.0.0.1", keys=KEYS, link=link, pace=PACE, clock=clock) for rank in (0, 1)
    )
    assert second.take() is None
    place = first.publish(TICKET)
    ticket, other = second.take()
    assert ticket == TICKET
    assert (other.rendezvous, other.rendezvous_id, other.nodes) == (place.rendezvous, "run.train-1", 3)
    assert (place.rank, other.rank) == (0, 1)
    assert second.take() is None


def test_a_job_that_the_others_cannot_hear_of_is_not_begun(node, monkeypatch):
    first = node(0)

    def away(*_: object) -> None:
        raise GenericError("error sending request")

    with monkeypatch.context() as outage:
        outage.setattr(ObjectStore, "put_json", away)
        assert first.publish(TICKET) is None


def test_a_job_that_cannot_be_read_is_left_alone(node, file_store, caplog):
    file_store.put_json(KEYS.gang_job("odd"), {"nodes": 3})
    second = node(1)
    assert second.take() is None
    assert second.take() is None
    assert caplog.text.count("unreadable") == 1


def test_a_notice_of_one_node_is_heard_by_the_others_and_not_by_itself(node):
    first, second = node(0), node(1)
    assert first.heard(TICKET) is None
    told = Departure(reason="preempted", grace_s=90.0, action="terminate", at="2026-01-01T00:00:00Z")
    second.pass_on(told, TICKET)
    assert first.heard(TICKET) == told
    assert second.heard(TICKET) is None
