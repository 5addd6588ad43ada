"""One training on two nodes: the same result as on one, and all or nothing whatever happens to one of them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from include.config.settings import Settings
from include.core.contracts.lease import JobPhase
from include.core.contracts.plan import Layout
from include.core.store import ObjectStore
from tests.support.lease_bench import alive
from tests.support.node_bench import LEASE, NodeBench, open_node_bench
from tests.support.training import RunningJob, tiny_workload, train_request, write_dataset
from tests.support.waiting import eventually

pytestmark = [pytest.mark.drill, pytest.mark.integration]
LAYOUT = Layout(replicate=2, micro_batch=16)
SHORT = tiny_workload(steps=60, checkpoint_every_steps=20)
ENDLESS = tiny_workload(hidden=(256, 256), steps=100_000, lr=0.0005, checkpoint_every_steps=50)
ROWS = {"train": 640, "validation": 40, "test": 40}


@pytest.fixture
def nodes(file_store: ObjectStore, settings_for: Callable[..., Settings]) -> Iterator[NodeBench]:
    with open_node_bench(file_store, settings_for(file_store)) as bench:
        yield bench


def training(nodes: NodeBench) -> str:
    """An endless training on two nodes that has committed something."""
    nodes.start()
    dataset = write_dataset(nodes.store, rows=ROWS)
    base = nodes.train(train_request(dataset, order=ENDLESS, layout=LAYOUT))
    commits = f"{base.rpartition('/jobs/')[0]}/checkpoints"
    eventually(
        lambda: any(key.endswith("COMMIT.json") for key, _ in nodes.store.list(commits)),
        within_s=60,
        what="a committed checkpoint",
    )
    return base


def test_two_nodes_come_to_the_result_of_two_workers_on_one(
    nodes: NodeBench, settings_for: Callable[..., Settings], tmp_path: Path
) -> None:
    dataset = write_dataset(nodes.store)
    single = train_request(dataset, order=SHORT, layout=LAYOUT, run_id="one-machine")
    job = RunningJob(single, store=nodes.store, settings=settings_for(nodes.store), job_dir=tmp_path / "single")
    nodes.start()
    base = nodes.train(train_request(dataset, order=SHORT, layout=LAYOUT))
    state = nodes.wait_phase(LEASE, base, JobPhase.EXITED, within_s=120)
    assert state.exit_code == 0, nodes.log(base)
    assert state.result is not None
    # Both nodes run the same attempt, and only the first one tells of it.
    assert "begin train-1" in nodes.output(0)
    assert eventually(lambda: "end train-1: exit 0" in nodes.output(1))
    assert nodes.store.get_json(f"{base}/heartbeat-1.json")["exit_code"] == 0
    assert nodes.node_log(base, 1)
    # A further launch of the same lease finds every place taken.
    extra = nodes.start_node()
    assert extra.wait(timeout=20) == 0
    assert "left: not mine" in nodes.output(2)
    beat = nodes.lease_beat(LEASE)
    assert beat["state"] == "idle"
    assert "2 of 2 nodes" in beat["usage"]["energy"]["method"]
    assert nodes.engine.stop(LEASE, reason="test") == "stopped"
    eventually(lambda: nodes.agents[1].poll() is not None, what="the other node has left too")

    assert job.wait() == 0, job.log()
    assert job.document("result")["weights_digest"] == state.result["weights_digest"]


@pytest.mark.long
def test_a_notice_on_one_node_ends_all_at_one_committed_step(nodes: NodeBench) -> None:
    base = training(nodes)
    nodes.emulators[1].announce(120)
    state = nodes.wait_phase(LEASE, base, JobPhase.EXITED, within_s=60)
    assert state.exit_code == 75, nodes.log(base)
    for number, agent in enumerate(nodes.agents):
        assert agent.wait(timeout=20) == 0
        assert "end train-1: exit 75" in nodes.output(number)
        assert "left: preempted" in nodes.output(number)
    outcome = nodes.store.get_json(f"{base}/outcome.json")
    other = nodes.store.get_json(f"{base}/node-1/outcome.json")
    assert (outcome["status"], outcome["step"]) == ("preempted", other["step"])
    account = nodes.store.get_json(f"{base}/steps.json")
    assert account["last_executed_step"] == account["committed_step"] == outcome["step"]


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_a_lost_node_ends_the_attempt_on_all(nodes: NodeBench, victim: int) -> None:
    base = training(nodes)
    tree, survivor = nodes.everything(), 1 - victim
    assert len(tree) >= 8  # two agents, each with a job, its torchrun and a worker
    nodes.agents[victim].send_signal(signal.SIGKILL)
    assert nodes.agents[survivor].wait(timeout=30) == 0
    assert "left: node_lost" in nodes.output(survivor)
    eventually(lambda: not alive(tree), within_s=5, what="no process is left")
    state = nodes.engine.poll(LEASE, base)
    if victim == 0:
        assert state.phase is JobPhase.LOST
    else:
        assert state.phase is JobPhase.EXITED
        assert state.exit_code in {-signal.SIGKILL, -signal.SIGTERM}  # no error of the job: it is tried again
    assert nodes.store.get_json(f"{base}/outcome.json") is None


@pytest.mark.long
def test_a_mistake_that_one_node_meets_is_told_by_the_first(nodes: NodeBench) -> None:
    nodes.start()
    dataset = write_dataset(nodes.store)
    base = nodes.train(train_request(dataset, order=SHORT, layout=Layout(replicate=3, micro_batch=11)))
    state = nodes.wait_phase(LEASE, base, JobPhase.EXITED, within_s=60)
    assert state.exit_code == 64
    assert "3 workers on 2 nodes" in nodes.store.get_json(f"{base}/outcome.json")["error"]
    again = nodes.train(train_request(dataset, order=SHORT, layout=LAYOUT, attempt=2))
    assert nodes.wait_phase(LEASE, again, JobPhase.EXITED, within_s=60).exit_code == 0


@pytest.mark.long
def test_an_order_to_leave_with_a_grace_lets_all_nodes_commit(nodes: NodeBench) -> None:
    base = training(nodes)
    nodes.store.put_json(f"leases/{LEASE}/stop.json", {"reason": "moving", "grace_s": 60})
    assert nodes.wait_phase(LEASE, base, JobPhase.EXITED, within_s=60).exit_code == 75
    for number, agent in enumerate(nodes.agents):
        assert agent.wait(timeout=10) == 0
        assert "left: moving" in nodes.output(number)
