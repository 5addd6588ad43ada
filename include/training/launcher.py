"""The job's side of a training: start torchrun, pass on the notice, publish the account, read the outcome.

Nothing here imports torch. The launcher runs in the job's main thread: the kernel ties a child's life to the thread
that forked it.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import psutil
from obstore.exceptions import BaseError

from include.core.errors import PlimsollError, UserError
from include.core.json_file import read_json, write_json
from include.core.process import die_with_parent
from include.core.store import ObjectStore
from include.training.local_files import NOTICE, ORDER, OUTCOME, STARTED, STEPS, STEPS_RECORD, folder_of
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.progress import read_account
from include.training.stop import SHUTDOWN_TIMEOUT_S
from include.training.telemetry.local_files import TELEMETRY
from include.training.telemetry_report import AttemptTelemetry, publish_telemetry

_log = logging.getLogger("plimsoll.train")
_PUBLISH_EVERY_S = 2.0
# Until there is an account at all: a machine lost in its first seconds has then still said where it began.
_FIRST_LOOK_EVERY_S = 0.2
# The account is small and comes again: a store that does not answer must not keep the launcher from its work.
_STORE_PATIENCE_S = 5.0
# What a torchrun whose workers have all left their outcomes may take to leave as well.
_BARRIER_GRACE_S = 3.0
# On several nodes it may wait for those whose last save takes a little longer.
_BARRIER_GRACE_OF_NODES_S = 10.0
# An elastic training goes on for as long as there are workers: losing one is no error that would be counted.
_RESTARTS_OF_ELASTIC = 10_000
# How long nodes of one attempt may wait for each other; their agents have started it at the same time.
_JOIN_TIMEOUT_S = 120
# Which outcome counts, where workers of one machine leave different ones: what a person can act on goes first.
_FAILURES = ("bad_input", "out_of_memory", "error")


def launch_training(order: WorkerOrder, *, store: ObjectStore) -> WorkerOutcome | None:
    """Train under torchrun and wait for the end.

    SIGTERM is passed on as the marker file, which the worker looks for after each step. The signal itself would kill a
    torchrun that is still importing, and one that runs would give its worker a time limit.

    Args:
        order: What the worker is to do; its scratch folder exists.
        store: Where the account of steps goes.

    Returns:
        The worker's outcome, or None when a signal ended it.

    Raises:
        UserError: The workers of the layout cannot be divided among the nodes.
        PlimsollError: torchrun could not start the worker at all.
    """
    workers = workers_here(order)
    folders = [folder_of(order.job_dir, local_rank) for local_rank in range(workers)]
    for folder in folders:
        _clear(folder)
    order_file = order.job_dir / ORDER
    order_file.write_text(order.model_dump_json(), encoding="utf-8")
    hasty = ObjectStore(store.url, patience_s=_STORE_PATIENCE_S)
    account = _AccountPublisher(store=hasty, key=f"{order.request.base}/{STEPS}", job_dir=order.job_dir)
    notice = _Notice(order.job_dir)
    previous = signal.signal(signal.SIGTERM, notice)
    process = subprocess.Popen(
        _command(order_file, order),
        env=_environment(order),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a signal to the job's group is for the launcher to judge, not for torchrun
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call; the threads of obstore hold no Python lock
    )
    notice.process = process
    try:
        return_code = _wait(process, account, order)
    finally:
        account.publish(exact=True)
        signal.signal(signal.SIGTERM, previous)
    folders = [folder_of(order.job_dir, local_rank) for local_rank in range(workers)]
    telemetry = publish_telemetry(folders, store=store, base=order.request.base)
    return _judged(_read_outcome(order.job_dir, return_code=return_code, workers=workers), telemetry)


def _judged(outcome: WorkerOutcome | None, telemetry: AttemptTelemetry | None) -> WorkerOutcome | None:
    """The outcome with what was measured, and in its result also the verdict over the attempt."""
    if outcome is None or telemetry is None:
        return outcome
    found = {"measured": telemetry.measured, "diagnosis": telemetry.diagnosis}
    result = None if outcome.result is None else outcome.result.model_copy(update=found)
    return outcome.model_copy(update={"result": result, "measured": telemetry.measured})


def workers_here(order: WorkerOrder) -> int:
    """Workers on this machine: those of the layout, divided among the nodes of the attempt.

    Raises:
        UserError: They cannot be divided.
    """
    layout, nodes = order.request.layout, 1 if order.node is None else order.node.nodes
    if layout is None:
        return 1
    if layout.workers % nodes:
        raise UserError(
            "the workers of the layout cannot be divided among the nodes",
            where="layout.replicate x layout.shard x layout.tensor",
            found=f"{layout.workers} workers on {nodes} nodes",
            allowed=f"a multiple of {nodes}",
        )
    return max(1, layout.workers // nodes)


class _Notice:
    """Signal handler that writes the marker file, unless the agent already has."""

    def __init__(self, job_dir: Path) -> None:
        self._marker = job_dir / NOTICE
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self._marker.exists():
            return
        try:
            write_json(self._marker, {"action": signal.Signals(number).name})
        except OSError:  # the disk is full: torchrun passes the signal on
            if self.process is not None:
                self.process.terminate()


class _AccountPublisher:
    """Makes ``steps.json`` of the worker's record: while it runs as a lower bound, after its end for certain."""

    def __init__(self, *, store: ObjectStore, key: str, job_dir: Path) -> None:
        self._store, self._key, self._job_dir = store, key, job_dir
        self._published: object = None

    @property
    def next_look_s(self) -> float:
        """Seconds until the account should be looked at again."""
        return _FIRST_LOOK_EVERY_S if self._published is None else _PUBLISH_EVERY_S

    def publish(self, *, exact: bool) -> None:
        account = read_account(self._job_dir)
        if account is None or (account, exact) == self._published:
            return
        try:
            write_json(self._job_dir / STEPS, account)
            self._store.put_json(self._key, {**account, "exact": exact})
        except (BaseError, OSError) as error:
            _log.warning("the account of steps could not be published, the training goes on: %s", error)
        else:
            self._published = (account, exact)


def _clear(folder: Path) -> None:
    for name in (OUTCOME, STARTED, STEPS, STEPS_RECORD, TELEMETRY):
        (folder / name).unlink(missing_ok=True)


def _command(order_file: Path, order: WorkerOrder) -> list[str]:
    meeting, node = order.request.rendezvous, order.node
    if node is not None:
        # All nodes or none: whatever goes wrong on one of them ends the attempt on all.
        how = [
            f"--nnodes={node.nodes}",
            f"--node-rank={node.rank}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={node.rendezvous}",
            f"--rdzv-id={node.rendezvous_id}",
            f"--rdzv-conf=is_host={'true' if node.rank == 0 else 'false'},join_timeout={_JOIN_TIMEOUT_S}",
            f"--local-addr={node.address}",
            "--max-restarts=0",
            "--monitor-interval=0.5",
        ]
    elif meeting is None:
        how = ["--standalone", "--nnodes=1", "--max-restarts=0"]
    else:
        how = [
            f"--nnodes={meeting.min_nodes}:{meeting.max_nodes}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={meeting.endpoint}",
            f"--rdzv-id={meeting.id}",
            f"--rdzv-conf=is_host={'true' if meeting.host else 'false'},last_call_timeout=1",
            f"--max-restarts={_RESTARTS_OF_ELASTIC}",
            "--monitor-interval=0.5",
        ]
    options = [
        f"--nproc-per-node={workers_here(order)}",
        f"--shutdown-timeout={SHUTDOWN_TIMEOUT_S}",
        f"--log-dir={order.job_dir / 'torchrun'}",  # else a folder in /tmp that nobody removes
    ]
    program = ["-m", "include.training.worker", str(order_file)]
    return [sys.executable, "-m", "torch.distributed.run", *how, *options, *program]


def _environment(order: WorkerOrder) -> dict[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(order.settings.torch_threads),
        **_interfaces(order),
        # Deterministic matrix products on CUDA need a fixed workspace.
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        # A node that joins later would be given the address of a store that nobody serves, and hang.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def _interfaces(order: WorkerOrder) -> dict[str, str]:
    """Which network interface the workers use, so that nobody needs the name of the host, which may not resolve."""
    meeting = order.request.rendezvous
    if order.node is not None:
        return _interface_with(order.node.address)
    if meeting is None or meeting.endpoint.startswith("127.0.0.1:"):
        return {"GLOO_SOCKET_IFNAME": "lo"}
    return {}


def _interface_with(address: str) -> dict[str, str]:
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": name}
    return {}


def _wait(process: subprocess.Popen[bytes], account: _AccountPublisher, order: WorkerOrder) -> int:
    told_at: float | None = None
    while True:
        try:
            return process.wait(timeout=account.next_look_s)
        except subprocess.TimeoutExpired:
            account.publish(exact=False)
        if order.request.rendezvous is None and order.node is None:
            continue
        outcomes = _outcomes(order.job_dir, workers_here(order))
        if not _has_left(order, outcomes):
            continue
        if told_at is None:
            told_at = time.monotonic()
            if order.node is None:
                process.terminate()
        elif None not in outcomes and time.monotonic() - told_at > _barrier_grace_s(order):
            # It waits for the other nodes inside a native call, where no signal handler of Python's is run.
            process.kill()


def _barrier_grace_s(order: WorkerOrder) -> float:
    return _BARRIER_GRACE_S if order.node is None else _BARRIER_GRACE_OF_NODES_S


def _has_left(order: WorkerOrder, outcomes: list[WorkerOutcome | None]) -> bool:
    """Whether this node's part in the training is over, which its torchrun does not see.

    An elastic one would start a worker again that can only fail again, or wait minutes for the nodes that go on; one
    of nodes that belong together would wait minutes for a node that is lost.
    """
    if order.node is not None:
        return None not in outcomes
    noticed = (order.job_dir / NOTICE).exists()
    return _failure(outcomes) is not None or (None not in outcomes and noticed)


def _outcomes(job_dir: Path, workers: int) -> list[WorkerOutcome | None]:
    found = [read_json(folder_of(job_dir, local_rank) / OUTCOME) for local_rank in range(workers)]
    return [None if outcome is None else WorkerOutcome.model_validate(outcome) for outcome in found]


def _failure(outcomes: list[WorkerOutcome | None]) -> WorkerOutcome | None:
    failed = [outcome for outcome in outcomes if outcome is not None and outcome.status in _FAILURES]
    return min(failed, key=lambda outcome: _FAILURES.index(outcome.status), default=None)


def _read_outcome(job_dir: Path, *, return_code: int, workers: int) -> WorkerOutcome | None:
    outcomes = _outcomes(job_dir, workers)
    failure, first = _failure(outcomes), outcomes[0]
    if failure is not None:
        return failure
    if first is not None and first.status != "peer_lost" and None not in outcomes:
        return first
    if return_code > 0 and not (job_dir / STARTED).exists():
        raise PlimsollError(f"torchrun could not start the worker (exit code {return_code}); its log has the reason")
    _log.warning("a worker left no outcome (torchrun exit code %d): a signal ended it", return_code)
    return None
