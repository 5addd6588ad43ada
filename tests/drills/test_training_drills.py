"""Trainings that are killed, warned, starved of disk and store: they resume from a commit and lose nothing else.

Attempts are forked from a process that has imported torch, so that dozens of them fit into a minute.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.config.job_messages import JobRequest, TrainResult
from include.core.contracts.dataset import DatasetRef
from include.core.contracts.plan import Layout
from include.core.json_file import write_json
from include.core.store import ObjectStore
from tests.support.training import tiny_workload, train_request, write_dataset
from tests.support.training_attempt import Attempt, Fault

pytestmark = pytest.mark.drill

KILLS, ALL_KILLS = 5, 30
KILLS_OF_ONE, ALL_KILLS_OF_ONE = 1, 10
NOTICES, ALL_NOTICES = 3, 20
EVERY = 7
ROWS = {"train": 650, "validation": 40, "test": 40}
TOTAL = 84
# 21 steps per epoch, the last one short; layers wide enough for blobs of their own.
ORDER = tiny_workload(hidden=(300, 300), epochs=4, lr=0.001, checkpoint_every_steps=EVERY)


class Drill:
    """One run in a store of its own, attempt after attempt."""

    def __init__(self, folder: Path, store: ObjectStore | None = None, *, workers: int = 1) -> None:
        self.folder, self.workers = folder, workers
        self.store = store or ObjectStore(f"file://{folder / 'store'}")
        self.dataset: DatasetRef = write_dataset(self.store, rows=ROWS)
        self.attempts = 0

    def attempt(
        self,
        *faults: Fault,
        environment: dict[str, str] | None = None,
        folder: str = "job",
        every_save: bool = True,
        faulty: int = 0,
        **changed: float,
    ) -> Attempt:
        """Start the next attempt, with an empty scratch folder."""
        self.attempts += 1
        job_dir = self.folder / f"{folder}-{self.attempts}"
        return Attempt(
            self.request(**changed),
            store=self.store,
            job_dir=job_dir,
            faults=faults,
            environment=environment,
            every_save=every_save,
            workers=self.workers,
            faulty=faulty,
        )

    def request(self, **changed: float) -> JobRequest:
        order = ORDER.model_copy(update={"training": ORDER.training.model_copy(update=changed)})
        layout = Layout(micro_batch=-(-order.training.batch_size // self.workers), replicate=self.workers)
        return train_request(self.dataset, attempt=self.attempts, order=order, layout=layout)

    @property
    def prefix(self) -> str:
        return f"{train_request(self.dataset, order=ORDER).run_prefix}/checkpoints"

    def commits(self) -> dict[int, str]:
        """Committed steps and their directories."""
        keys = [key for key, _ in self.store.list(self.prefix) if key.endswith("/COMMIT.json")]
        return {int(key.split("/")[-2].split("-")[1]): key.rpartition("/")[0] for key in keys}

    def finish(
        self, straight: TrainResult, *, resumed_step: int | None = None, environment: dict[str, str] | None = None
    ) -> TrainResult:
        """Run a last attempt and compare it with the undisturbed training."""
        committed = max(self.commits(), default=0)
        result = done(self.attempt(environment=environment))
        assert result.resumed_step == (committed if resumed_step is None else resumed_step)
        assert result.weights_digest == straight.weights_digest
        assert result.metrics == straight.metrics
        return result


def done(attempt: Attempt) -> TrainResult:
    outcome = attempt.finish()
    assert outcome.status == "done", attempt.log()
    assert outcome.result is not None
    return outcome.result


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    """Result of the undisturbed training."""
    drill = Drill(tmp_path_factory.mktemp("straight"))
    result = done(drill.attempt())
    assert (result.steps, max(drill.commits())) == (TOTAL, TOTAL)
    return result


@pytest.fixture
def drill(tmp_path: Path) -> Drill:
    return Drill(tmp_path)


def some(first: int, last: int) -> list[object]:
    """Numbers of the moments: the first ones always, the others in the full set."""
    return [pytest.param(n, marks=[pytest.mark.long] if n >= first else []) for n in range(last)]


@pytest.mark.parametrize("number", some(KILLS, ALL_KILLS))
def test_kill_at_any_moment_resumes_from_a_commit_with_the_same_weights(
    number: int, drill: Drill, straight: TrainResult
) -> None:
    dice = random.Random(f"kill {number}")
    # One in three in the course of the steps, the others inside a save: half a blob, an upload, just before or after
    # the commit.
    inside = {"where": dice.choice(["write", "place", "commit"]), "what": dice.choice(["kill", "killed after"])}
    faults = [] if number % 3 == 0 else [{**inside, "after": dice.randrange(12)}]
    # The former leave saves out while one runs, as trainings do; of the latter the n-th save has to come.
    attempt = drill.attempt(*faults, every_save=bool(faults))
    if not faults:
        attempt.wait_for_step(dice.randrange(TOTAL - 1))
        time.sleep(dice.uniform(0, 0.02))
        attempt.kill()
    attempt.process.join(60)
    assert not (attempt.job_dir / "worker_outcome.json").exists(), attempt.log()
    account, committed = attempt.account(), max(drill.commits(), default=0)
    assert committed >= account["committed_step"]
    # What is under way when it happens, and what was done since; a save that takes longer than the interval makes it
    # longer by whole ones.
    left_out = attempt.log().count("no save, since the one before is still under way")
    assert account["last_executed_step"] - committed <= (2 + left_out) * EVERY
    assert committed % EVERY == 0
    drill.finish(straight)


@pytest.fixture(scope="module")
def straight_together(tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    """Result of the undisturbed training of two workers."""
    return done(Drill(tmp_path_factory.mktemp("together"), workers=2).attempt())


@pytest.mark.parametrize("number", some(KILLS_OF_ONE, ALL_KILLS_OF_ONE))
def test_kill_of_one_of_two_workers_during_a_save(number: int, tmp_path: Path, straight_together: TrainResult) -> None:
    dice, drill = random.Random(f"one of two {number}"), Drill(tmp_path, workers=2)
    # In the middle of a blob, of its upload, of the commit, which the first one makes; or right after it.
    where = ["place", "write", "commit"][number % 3]
    faulty = 0 if where == "commit" else dice.randrange(2)
    what = dice.choice(["kill", "killed after"])
    attempt = drill.attempt({"where": where, "what": what, "after": dice.randrange(2, 6)}, faulty=faulty)
    lost, other = attempt.processes[faulty], attempt.processes[1 - faulty]
    lost.join(60)
    assert lost.exitcode == -signal.SIGKILL, attempt.log()
    # As torchrun does; the other has noticed the loss itself, or does at its next exchange.
    other.terminate()
    other.join(30)
    assert other.exitcode == 1, attempt.log()
    committed = max(drill.commits(), default=0)
    assert committed % EVERY == 0
    assert attempt.account()["last_executed_step"] - committed <= 2 * EVERY
    drill.finish(straight_together)


@pytest.mark.parametrize("number", some(NOTICES, ALL_NOTICES))
def test_notice_at_any_moment_costs_no_step(number: int, drill: Drill, straight: TrainResult) -> None:
    dice = random.Random(f"notice {number}")
    attempt = drill.attempt()
    attempt.wait_for_step(dice.randrange(TOTAL // 2))
    time.sleep(dice.uniform(0, 0.02))
    if dice.random() < 0.5:
        attempt.process.terminate()
    else:
        (attempt.job_dir / "notice.json").write_text('{"action": "terminate"}')
    outcome = attempt.finish()
    assert outcome.status == "preempted", attempt.log()
    account = attempt.account()
    assert account["last_executed_step"] == account["committed_step"] == outcome.step == max(drill.commits()) < TOTAL
    drill.finish(straight, resumed_step=outcome.step)


def test_kill_after_kill_gets_to_the_end(drill: Drill, straight: TrainResult) -> None:
    for step in (20, 40, 60):
        attempt = drill.attempt()
        attempt.wait_for_step(step)
        attempt.kill()
    assert drill.finish(straight).resumed_step > 40


def test_full_disk_during_a_save_costs_that_checkpoint_alone(drill: Drill, straight: TrainResult) -> None:
    attempt = drill.attempt({"where": "write", "what": "disk full", "after": 30, "count": 12})
    result = done(attempt)
    assert result.weights_digest == straight.weights_digest
    assert "No space left on device" in attempt.log()
    assert 0 < len(drill.commits()) < TOTAL // EVERY
    assert max(drill.commits()) == TOTAL


def test_full_disk_at_the_end_is_a_clear_error_and_the_earlier_commit_holds(
    drill: Drill, straight: TrainResult
) -> None:
    outcome = drill.attempt({"where": "write", "what": "disk full", "after": 40, "count": 10**6}).finish()
    assert outcome.status == "error"
    assert f"step-{TOTAL}-1" in outcome.message
    assert "No space left on device" in outcome.message
    assert 0 < max(drill.commits()) < TOTAL
    drill.finish(straight)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone"])
def test_damaged_blob_is_told_and_the_next_older_checkpoint_is_used(
    damage: str, drill: Drill, straight: TrainResult
) -> None:
    attempt = drill.attempt()
    attempt.wait_for_step(4 * EVERY)
    attempt.process.terminate()
    assert attempt.finish().status == "preempted"
    *_, older, newest = sorted(drill.commits())
    name = drill.commits()[newest].rpartition("/")[2]
    needed = {step: blobs_of(drill, step) for step in (older, newest)}
    key = min(needed[newest] - needed[older])
    path = Path(drill.store.url.removeprefix("file://")) / key
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(data[:-7] if damage == "truncated" else data[:-1] + bytes([data[-1] ^ 1]))
    result = drill.finish(straight, resumed_step=older)
    reason = {"truncated": "bytes instead of", "flipped": "differs from its digest", "gone": "is missing"}[damage]
    assert [skipped for skipped, _ in result.skipped] == [name]
    assert reason in result.skipped[0][1]


def blobs_of(drill: Drill, step: int) -> set[str]:
    commit = drill.store.get_json(f"{drill.commits()[step]}/COMMIT.json")
    return {f"{drill.prefix}/blobs/{blob['sha256']}.safetensors" for blob in commit["blobs"]}


def test_checkpoint_of_another_configuration_is_refused(drill: Drill) -> None:
    attempt = drill.attempt()
    attempt.wait_for_step(2 * EVERY)
    attempt.process.terminate()
    attempt.finish()
    outcome = drill.attempt(lr=0.5).finish()
    assert outcome.status == "bad_input"
    assert "another configuration" in outcome.message
    assert outcome.result is None


def test_machine_lost_with_its_disk(drill: Drill, straight: TrainResult) -> None:
    attempt = drill.attempt()
    attempt.wait_for_step(5 * EVERY)
    attempt.kill()
    shutil.rmtree(attempt.job_dir)
    drill.finish(straight)


def test_of_two_processes_of_the_same_attempt_one_ends_and_the_other_is_undisturbed(
    drill: Drill, straight: TrainResult
) -> None:
    first = drill.attempt()
    drill.attempts -= 1  # the same number again, as after a lease that was believed lost and was not
    second = drill.attempt(folder="again")
    outcomes = [first.finish(), second.finish()]
    assert sorted(outcome.status for outcome in outcomes) == ["done", "error"]
    for outcome in outcomes:
        if outcome.status == "error":
            assert "another process runs the same attempt" in outcome.message
        else:
            assert outcome.result is not None
            assert outcome.result.weights_digest == straight.weights_digest


class Gate:
    """A TCP relay in front of a server, which can be shut."""

    def __init__(self, host: str, port: int) -> None:
        self._to, self._open, self._silent = (host, port), True, False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self, *, silent: bool = False) -> None:
        """End all connections; new ones are ended at once, or get no answer."""
        self._open, self._silent = False, silent
        for connection in self._connections:
            _end(connection)

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        self.shut()
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._server.accept()
            except OSError:
                return
            if not self._open:
                self._connections.append(inner)
                if not self._silent:
                    _end(inner)
                continue
            outer = socket.create_connection(self._to)
            self._connections += [inner, outer]
            for one, other in ((inner, outer), (outer, inner)):
                threading.Thread(target=_relay, args=(one, other), daemon=True).start()


def _relay(one: socket.socket, other: socket.socket) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
    finally:
        for end in (one, other):
            _end(end)


def _end(connection: socket.socket) -> None:
    # Closing alone would leave the other thread waiting for more.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@pytest.fixture
def gate(moto_endpoint: str) -> Iterator[Gate]:
    host, port = moto_endpoint.removeprefix("http://").split(":")
    made = Gate(host, int(port))
    yield made
    made.close()


@pytest.mark.integration
@pytest.mark.parametrize("outage_s", [2, pytest.param(30, marks=pytest.mark.long)])
def test_store_that_is_unreachable_for_a_while_delays_and_loses_nothing(
    outage_s: int, tmp_path: Path, s3_store: ObjectStore, gate: Gate, straight: TrainResult
) -> None:
    drill = Drill(tmp_path, s3_store)
    attempt = drill.attempt(environment={"AWS_ENDPOINT_URL": f"http://127.0.0.1:{gate.port}"} | aws())
    attempt.wait_for_step(2 * EVERY)
    gate.shut()
    began = time.monotonic()
    while time.monotonic() - began < outage_s:
        assert attempt.process.is_alive(), attempt.log()
        time.sleep(0.1)
    during = attempt.account()
    assert during["last_executed_step"] < TOTAL
    gate.open()
    result = done(attempt)
    assert result.weights_digest == straight.weights_digest
    assert max(drill.commits()) == TOTAL


@pytest.mark.integration
@pytest.mark.parametrize(
    ("silent", "grace_s", "share"),
    # A connection that takes a request and stays silent looks like one that is only slow, for half a minute.
    [(False, 4, 0.8), (True, 4, 0.8), pytest.param(False, 40, 0.5, marks=pytest.mark.long)],
)
def test_notice_while_the_store_is_unreachable_ends_in_time_at_the_last_commit(
    silent: bool,
    grace_s: float,
    share: float,
    tmp_path: Path,
    s3_store: ObjectStore,
    gate: Gate,
    straight: TrainResult,
) -> None:
    drill, environment = Drill(tmp_path, s3_store), {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{gate.port}"} | aws()
    attempt = drill.attempt(environment=environment)
    attempt.wait_for_step(EVERY, of="committed_step")
    gate.shut(silent=silent)
    began = time.monotonic()
    write_json(attempt.job_dir / "notice.json", {"action": "terminate", "grace_s": grace_s})
    outcome = attempt.finish()
    # Half of it once a request has failed, which takes some seconds.
    assert time.monotonic() - began < share * grace_s + 0.8
    gate.open()
    assert outcome.status == "preempted", attempt.log()
    committed = max(drill.commits())
    assert EVERY <= outcome.step == attempt.account()["committed_step"] == committed < TOTAL
    assert outcome.checkpoint_uri == drill.store.uri(drill.commits()[committed])
    drill.finish(straight, resumed_step=committed, environment=environment)


def aws() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_") and name != "AWS_ENDPOINT_URL"}
