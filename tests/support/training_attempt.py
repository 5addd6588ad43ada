"""One attempt of a training as the worker runs it, in a forked process, with faults built in."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.store import ObjectStore
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.progress import read_account
from tests.support.preloaded import free_port, start

Fault = dict[str, Any]


class Attempt:
    """A running attempt.

    Args:
        request: What to train.
        store: The object store.
        job_dir: Its scratch folder; the cache of checkpoints lies in it.
        faults: See `inject`.
        environment: Further variables.
        settings: Instead of the defaults for this store.
        every_save: Whether a save that is due waits for the one before instead of being left out.
        workers: Workers of one gloo group.
        faulty: The worker that has the faults.
    """

    def __init__(
        self,
        request: JobRequest,
        *,
        store: ObjectStore,
        job_dir: Path,
        faults: tuple[Fault, ...] = (),
        environment: dict[str, str] | None = None,
        settings: Settings | None = None,
        every_save: bool = False,
        workers: int = 1,
        faulty: int = 0,
    ) -> None:
        job_dir.mkdir(parents=True, exist_ok=True)
        self.job_dir = job_dir
        settings = settings or Settings(store=store.url)
        order = WorkerOrder(request=request, settings=settings, job_dir=job_dir)
        (job_dir / "order.json").write_text(order.model_dump_json())
        port = free_port() if workers > 1 else 0
        self.processes = [
            start(
                _run,
                str(job_dir),
                faults if rank == faulty else (),
                {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers)}
                | {"LOCAL_WORLD_SIZE": str(workers), "MASTER_PORT": str(port), **(environment or {})},
                every_save,
            )
            for rank in range(workers)
        ]
        self.process = self.processes[0]

    def account(self) -> dict[str, Any]:
        """Steps so far; zeros before the first."""
        return read_account(self.job_dir) or {"resumed_step": 0, "last_executed_step": 0, "committed_step": 0}

    def wait_for_step(self, step: int, *, of: str = "last_executed_step") -> None:
        """Wait until a step was executed, or the account has come to it in another entry, or the process has ended."""
        while self.process.is_alive() and self.account()[of] < step:
            time.sleep(0.001)

    def kill(self) -> None:
        """SIGKILL, without notice."""
        self.process.kill()
        self.process.join(60)

    def finish(self) -> WorkerOutcome:
        """Wait for the end."""
        self.process.join(120)
        outcome = self.job_dir / "worker_outcome.json"
        assert outcome.exists(), self.log()
        return WorkerOutcome.model_validate(json.loads(outcome.read_text()))

    def log(self) -> str:
        return (self.job_dir / "log.txt").read_text()


def _run(job_dir: str, faults: tuple[Fault, ...], environment: dict[str, str], every_save: bool) -> None:
    from include.training import worker
    from include.training.checkpoint import Checkpointer

    os.environ.update({"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", **environment})
    log = os.open(f"{job_dir}/log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    for fault in faults:
        inject(**fault)
    if every_save:
        Checkpointer.busy = property(lambda _: False)  # type: ignore[assignment,method-assign] - on purpose
    worker.main(Path(job_dir) / "order.json")


def inject(*, where: str, what: str, after: int, count: int = 1) -> None:
    """Break something from the ``after``-th call on, ``count`` times.

    Args:
        where: ``write`` (a blob to the local disk), ``place`` (a blob to the store), ``commit`` (the commit to it).
        what: ``kill`` in the middle of it, ``killed after`` it, ``disk full``.
        after: Calls that work before.
        count: Calls that fail.
    """
    from include.training import blob_store

    calls = [0]

    def broken(whole: Callable[..., Any], half: Callable[..., None]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls[0] += 1
            if not after < calls[0] <= after + count:
                return whole(*arguments)
            if what == "disk full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if what == "killed after":
                whole(*arguments)
            else:
                half(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("SIGKILL does not return")

        return call

    if where == "write":
        blob_store._write_all = broken(blob_store._write_all, lambda fd, view: os.write(fd, view[: len(view) // 2]))
    elif where == "place":
        ObjectStore.place = broken(ObjectStore.place, lambda *_: None)  # type: ignore[method-assign] - on purpose
    else:
        ObjectStore.create_json = broken(ObjectStore.create_json, lambda *_: None)  # type: ignore[method-assign] - as above
