"""Worker processes forked from one that has imported torch and the training: a start takes milliseconds, not seconds.

Nothing that the test process has opened is in them: they come from multiprocessing's fork server.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.preloaded_modules"])
_LONGEST_S = 120


def start(function: Callable[..., None], *arguments: Any) -> Any:
    """Start ``function(*arguments)``, which must be importable, in a process of its own."""
    process = _CONTEXT.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def run_workers(world: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """``function(*arguments)`` on all workers of a gloo group; returns what each of them returned."""
    port = free_port()
    pipes = [_CONTEXT.Pipe(duplex=False) for _ in range(world)]
    processes = [
        start(_worker, rank, world, port, sender, function, arguments) for rank, (_, sender) in enumerate(pipes)
    ]
    answers = []
    for process, (receiver, sender) in zip(processes, pipes, strict=True):
        sender.close()
        assert receiver.poll(_LONGEST_S), "a worker says nothing"
        answers.append(receiver.recv())
        process.join(_LONGEST_S)
    failures = [text for failed, text in answers if failed]
    assert not failures, "\n".join(failures)
    return [value for _, value in answers]


def _worker(rank: int, world: int, port: int, sender: Any, function: Callable[..., Any], arguments: Any) -> None:
    from torch import distributed

    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo",
    )
    try:
        distributed.init_process_group("gloo")
        sender.send((False, function(*arguments)))
        distributed.destroy_process_group()
    except BaseException:  # noqa: BLE001 - the test process raises whatever it was
        sender.send((True, traceback.format_exc()))
        os._exit(1)


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
