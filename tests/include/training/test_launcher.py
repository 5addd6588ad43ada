from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.exceptions import GenericError

from include.config.job_messages import Rendezvous
from include.config.settings import Settings
from include.core.contracts.dataset import DatasetRef
from include.core.contracts.plan import Layout
from include.core.errors import PlimsollError, UserError
from include.core.node_place import NodePlace
from include.core.store import ObjectStore
from include.training import launcher
from include.training.outcome import WorkerOrder, WorkerOutcome
from tests.support.training import train_request

Launch = Callable[[str], WorkerOutcome | None]


@pytest.fixture
def order(file_store: ObjectStore, settings_for: Callable[..., Settings], tmp_path: Path) -> WorkerOrder:
    dataset = DatasetRef(uri=file_store.uri("datasets/none/manifest.json"), fingerprint="none", rows={})
    (tmp_path / "job").mkdir()
    return WorkerOrder(request=train_request(dataset), settings=settings_for(file_store), job_dir=tmp_path / "job")


@pytest.fixture
def launch(order: WorkerOrder, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Launch a given program in the place of torchrun, in the job's folder."""

    def run(program: str) -> WorkerOutcome | None:
        code = f"import json, os, signal, sys, time\nos.chdir({str(order.job_dir)!r})\n{program}"
        monkeypatch.setattr(launcher, "_command", lambda *_: [sys.executable, "-c", code])
        return launcher.launch_training(order, store=file_store)

    return run


def dump(name: str, value: object) -> str:
    """Program text that leaves a document in one step, as the worker does."""
    return f"open('part', 'w').write({json.dumps(value)!r}); os.replace('part', {name!r})\n"


def test_outcome_counts_and_not_the_exit_code(launch: Launch) -> None:
    left = WorkerOutcome(status="preempted", step=4, checkpoint_uri="file:///x")
    assert launch(dump("worker_outcome.json", left.model_dump()) + "sys.exit(1)") == left


@pytest.mark.parametrize("end", ["sys.exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_worker_without_outcome_was_ended_by_a_signal(launch: Launch, end: str) -> None:
    assert launch(dump("worker_started.json", {"pid": 1}) + end) is None


def test_torchrun_that_never_started_a_worker_is_an_error(launch: Launch) -> None:
    with pytest.raises(PlimsollError, match="could not start the worker"):
        launch("sys.exit(2)")


def test_leftovers_of_an_earlier_attempt_are_not_believed(launch: Launch, order: WorkerOrder) -> None:
    (order.job_dir / "worker_outcome.json").write_text(WorkerOutcome(status="done").model_dump_json())
    (order.job_dir / "worker_started.json").write_text("{}")
    with pytest.raises(PlimsollError, match="could not start"):
        launch("sys.exit(2)")


def test_account_is_published_after_a_kill_too(launch: Launch, order: WorkerOrder, file_store: ObjectStore) -> None:
    account = {"resumed_step": 3, "last_executed_step": 9, "committed_step": 8, "useful_s": 1.5}
    started = dump("worker_started.json", {"pid": 1}) + dump("steps.json", account)
    assert launch(f"{started}os.kill(os.getpid(), signal.SIGKILL)") is None
    assert file_store.get_json(f"{order.request.base}/steps.json") == {**account, "exact": True}


def test_account_is_published_while_the_worker_runs(
    launch: Launch, order: WorkerOrder, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first account goes out as soon as there is one: a machine may be lost before the next regular look.
    monkeypatch.setattr(launcher, "_PUBLISH_EVERY_S", 3600.0)
    monkeypatch.setattr(launcher, "_FIRST_LOOK_EVERY_S", 0.02)
    published = file_store.uri(f"{order.request.base}/steps.json").removeprefix("file://")
    account = {"resumed_step": 0, "last_executed_step": 1, "committed_step": 0, "useful_s": 0.1}
    # The program ends only when it sees its own account in the store, as a lower bound.
    wait = f"while not os.path.exists({published!r}): time.sleep(0.01)\n"
    check = f"assert json.load(open({published!r}))['exact'] is False\n"
    done = dump("worker_outcome.json", WorkerOutcome(status="done").model_dump())
    assert launch(dump("steps.json", account) + wait + check + done) is not None


def test_a_store_that_takes_no_account_for_a_while_does_not_end_the_training(
    launch: Launch, order: WorkerOrder, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, failed = ObjectStore.put_json, []

    def away_at_first(self: ObjectStore, key: str, value: object) -> None:
        if len(failed) < 2:
            failed.append(key)
            raise GenericError("error sending request")
        put(self, key, value)

    monkeypatch.setattr(ObjectStore, "put_json", away_at_first)
    monkeypatch.setattr(launcher, "_FIRST_LOOK_EVERY_S", 0.02)
    account = {"resumed_step": 0, "last_executed_step": 1, "committed_step": 0, "useful_s": 0.1}
    published = file_store.uri(f"{order.request.base}/steps.json").removeprefix("file://")
    wait = f"while not os.path.exists({published!r}): time.sleep(0.01)\n"
    done = dump("worker_outcome.json", WorkerOutcome(status="done").model_dump())
    assert launch(dump("steps.json", account) + wait + done) is not None
    assert len(failed) == 2


def test_a_node_that_was_told_to_leave_does_not_wait_for_the_others(
    order: WorkerOrder, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = Rendezvous(endpoint="127.0.0.1:1", id="test", min_nodes=1, max_nodes=2, host=False)
    elastic = order.model_copy(update={"request": order.request.model_copy(update={"rendezvous": meeting})})
    left = WorkerOutcome(status="preempted", step=4, checkpoint_uri="file:///x")
    told = dump("worker_outcome.json", left.model_dump()) + dump("notice.json", {})
    # A torchrun in its exit barrier waits in a native call and hears no signal.
    deaf = "import json, os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    deaf += f"os.chdir({str(order.job_dir)!r})\n"
    monkeypatch.setattr(launcher, "_command", lambda *_: [sys.executable, "-c", f"{deaf}{told}time.sleep(250)"])
    monkeypatch.setattr(launcher, "_BARRIER_GRACE_S", 0.2)
    assert launcher.launch_training(elastic, store=file_store) == left


def test_sigterm_becomes_the_marker_and_does_not_reach_torchrun(launch: Launch, order: WorkerOrder) -> None:
    before = signal.getsignal(signal.SIGTERM)
    preempted = WorkerOutcome(status="preempted", step=1, checkpoint_uri="file:///x")

    def send_once_ready() -> None:
        while not (order.job_dir / "worker_started.json").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send_once_ready)
    sender.start()
    program = "signal.signal(signal.SIGTERM, lambda *_: os._exit(9))\n" + dump("worker_started.json", {})
    program += "while not os.path.exists('notice.json'): time.sleep(0.01)\n"
    assert launch(program + dump("worker_outcome.json", preempted.model_dump())) == preempted
    sender.join()
    assert json.loads((order.job_dir / "notice.json").read_text()) == {"action": "SIGTERM"}
    assert signal.getsignal(signal.SIGTERM) == before


def on_nodes(order: WorkerOrder, *, rank: int, workers: int) -> WorkerOrder:
    node = NodePlace(nodes=2, rank=rank, address="127.0.0.1", rendezvous="127.0.0.1:4711", rendezvous_id="train-1")
    request = order.request.model_copy(update={"layout": Layout(replicate=workers, micro_batch=8)})
    return order.model_copy(update={"node": node, "request": request})


@pytest.mark.parametrize("rank", [0, 1])
def test_several_nodes_meet_and_none_starts_again_alone(order: WorkerOrder, rank: int) -> None:
    command = launcher._command(order.job_dir / "order", on_nodes(order, rank=rank, workers=4))
    assert {"--nnodes=2", f"--node-rank={rank}", "--nproc-per-node=2", "--max-restarts=0"} <= set(command)
    assert {"--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:4711", "--rdzv-id=train-1"} <= set(command)
    assert "--standalone" not in command
    # Exactly one of them serves the meeting point.
    assert any(f"is_host={'true' if rank == 0 else 'false'}" in part for part in command)


def test_a_node_that_is_done_does_not_wait_for_one_that_is_lost(
    order: WorkerOrder, file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = WorkerOutcome(status="preempted", step=4, checkpoint_uri="file:///x")
    deaf = "import json, os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    deaf += f"os.chdir({str(order.job_dir)!r})\n{dump('worker_outcome.json', left.model_dump())}time.sleep(250)"
    monkeypatch.setattr(launcher, "_command", lambda *_: [sys.executable, "-c", deaf])
    monkeypatch.setattr(launcher, "_BARRIER_GRACE_OF_NODES_S", 0.2)
    assert launcher.launch_training(on_nodes(order, rank=0, workers=2), store=file_store) == left


def test_workers_use_the_interface_by_which_the_nodes_reach_each_other(order: WorkerOrder) -> None:
    environment = launcher._environment(on_nodes(order, rank=0, workers=2))
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "lo"
    assert launcher._interface_with("192.0.2.1") == {}


def test_workers_that_cannot_be_divided_among_the_nodes_are_refused(order: WorkerOrder) -> None:
    with pytest.raises(UserError, match="3 workers on 2 nodes"):
        launcher.workers_here(on_nodes(order, rank=0, workers=3))


def test_launcher_and_job_import_no_torch() -> None:
    code = "import sys, include.jobs.train, include.training.worker; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
