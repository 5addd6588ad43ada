from __future__ import annotations

from include.core.node_place import NodePlace

PLACE = NodePlace(nodes=2, rank=1, address="10.0.0.6", rendezvous="10.0.0.5:4711", rendezvous_id="train-1")


def test_a_job_reads_what_its_agent_wrote() -> None:
    assert NodePlace.from_environment(PLACE.to_environment()) == PLACE


def test_a_job_on_one_node_has_no_place() -> None:
    assert NodePlace.from_environment({}) is None
    assert NodePlace.from_environment({"PLIMSOLL_NODES": "1"}) is None


def test_other_nodes_keep_their_documents_below_those_of_the_first() -> None:
    first = NodePlace(nodes=2, rank=0, address="10.0.0.5", rendezvous="10.0.0.5:4711", rendezvous_id="train-1")
    assert first.base_of("runs/x/jobs/train-1") == "runs/x/jobs/train-1"
    assert PLACE.base_of("runs/x/jobs/train-1") == "runs/x/jobs/train-1/node-1"
