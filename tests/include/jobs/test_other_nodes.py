from __future__ import annotations

import pytest

from include.core.errors import PlimsollError, PreemptedError, UserError
from include.core.node_place import NodePlace
from include.core.store import ObjectStore
from include.jobs.other_nodes import raise_outcome_elsewhere

BASE = "runs/x/jobs/train-1"


def place(rank: int) -> NodePlace:
    return NodePlace(nodes=3, rank=rank, address="127.0.0.1", rendezvous="127.0.0.1:1", rendezvous_id="train-1")


@pytest.mark.parametrize(("status", "error"), [("bad_input", UserError), ("error", PlimsollError)])
def test_the_first_node_tells_what_another_failed_of(
    file_store: ObjectStore, status: str, error: type[Exception]
) -> None:
    file_store.put_json(f"{BASE}/node-2/outcome.json", {"status": status, "error": "no such column"})
    with pytest.raises(error, match="node 2: no such column"):
        raise_outcome_elsewhere(file_store, base=BASE, node=place(0), patience_s=0.0)


def test_a_commit_that_another_node_tells_of_is_the_commit_of_all(file_store: ObjectStore) -> None:
    told = {"status": "preempted", "step": 3, "checkpoint": "file:///c"}
    file_store.put_json(f"{BASE}/node-1/outcome.json", told)
    with pytest.raises(PreemptedError) as caught:
        raise_outcome_elsewhere(file_store, base=BASE, node=place(0), patience_s=0.0)
    assert (caught.value.step, caught.value.checkpoint) == (3, "file:///c")


def test_a_node_that_tells_nothing_was_lost(file_store: ObjectStore) -> None:
    file_store.put_json(f"{BASE}/node-1/started.json", {"attempt": 1})
    raise_outcome_elsewhere(file_store, base=BASE, node=place(0), patience_s=0.0)


def test_other_nodes_do_not_speak_for_all(file_store: ObjectStore) -> None:
    file_store.put_json(f"{BASE}/node-2/outcome.json", {"status": "error", "error": "x"})
    raise_outcome_elsewhere(file_store, base=f"{BASE}/node-1", node=place(1))
