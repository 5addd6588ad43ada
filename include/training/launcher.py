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
from pathlib import Path
from types import FrameType

from include.core.errors import PlimsollError
from include.core.json_file import read_json, write_json
from include.core.process import die_with_parent
from include.core.store import ObjectStore
from include.training.local_files import NOTICE, ORDER, OUTCOME, STARTED, STEPS
from include.training.outcome import WorkerOrder, WorkerOutcome

_log = logging.getLogger("plimsoll.train")
_PUBLISH_EVERY_S = 2.0
# Until there is an account at all: a machine lost in its first seconds has then still said where it began.
_FIRST_LOOK_EVERY_S = 0.2
# A two-minute notice, less what the wrapper needs afterwards.
_SHUTDOWN_TIMEOUT_S = 110


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
        PlimsollError: torchrun could not start the worker at all.
    """
    _clear(order.job_dir)
    order_file = order.job_dir / ORDER
    order_file.write_text(order.model_dump_json(), encoding="utf-8")
    account = _AccountPublisher(store=store, key=f"{order.request.base}/{STEPS}", path=order.job_dir / STEPS)
    previous = signal.signal(signal.SIGTERM, _Notice(order.job_dir))
    process = subprocess.Popen(
        _command(order_file),
        env=_environment(order.settings.torch_threads),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a signal to the job's group is for the launcher to judge, not for torchrun
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call; the threads of obstore hold no Python lock
    )
    try:
        return_code = _wait(process, account)
    finally:
        account.publish(exact=True)
        signal.signal(signal.SIGTERM, previous)
    return _read_outcome(order.job_dir, return_code=return_code)


class _Notice:
    """Signal handler that writes the marker file, unless the agent already has."""

    def __init__(self, job_dir: Path) -> None:
        self._marker = job_dir / NOTICE

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if not self._marker.exists():
            write_json(self._marker, {"action": signal.Signals(number).name})


class _AccountPublisher:
    """Copies ``steps.json`` to the store: while the worker runs as a lower bound, after its end for certain."""

    def __init__(self, *, store: ObjectStore, key: str, path: Path) -> None:
        self._store, self._key, self._path = store, key, path
        self._published: object = None

    @property
    def next_look_s(self) -> float:
        """Seconds until the account should be looked at again."""
        return _FIRST_LOOK_EVERY_S if self._published is None else _PUBLISH_EVERY_S

    def publish(self, *, exact: bool) -> None:
        account = read_json(self._path)
        if account is None or (account, exact) == self._published:
            return
        self._store.put_json(self._key, {**account, "exact": exact})
        self._published = (account, exact)


def _clear(job_dir: Path) -> None:
    for name in (OUTCOME, STARTED, STEPS):
        (job_dir / name).unlink(missing_ok=True)


def _command(order_file: Path) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nnodes=1", "--nproc-per-node=1", "--max-restarts=0"]
    options = [f"--shutdown-timeout={_SHUTDOWN_TIMEOUT_S}", "-m", "include.training.worker", str(order_file)]
    return [sys.executable, *launcher, *options]


def _environment(threads: int) -> dict[str, str]:
    return {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        # One machine: gloo needs no name of the host, which containers often cannot resolve.
        "GLOO_SOCKET_IFNAME": "lo",
        # Deterministic matrix products on CUDA need a fixed workspace.
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        # A node that joins later would be given the address of a store that nobody serves, and hang.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def _wait(process: subprocess.Popen[bytes], account: _AccountPublisher) -> int:
    while True:
        try:
            return process.wait(timeout=account.next_look_s)
        except subprocess.TimeoutExpired:
            account.publish(exact=False)


def _read_outcome(job_dir: Path, *, return_code: int) -> WorkerOutcome | None:
    found = read_json(job_dir / OUTCOME)
    if found is not None:
        return WorkerOutcome.model_validate(found)
    if return_code > 0 and not (job_dir / STARTED).exists():
        raise PlimsollError(f"torchrun could not start the worker (exit code {return_code}); its log has the reason")
    _log.warning("the worker left no outcome (torchrun exit code %d): a signal ended it", return_code)
    return None
