"""A model server of one's own, for measuring: same program as the supervised one, other port, other store prefix."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from include.config.settings import REPO, Settings
from include.core.store import ObjectStore
from include.serving.desired import ServedVersion, actual_key, desired_key, read_actual, request_version

START_LIMIT_S = 30.0
_END_LIMIT_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateServer:
    """A running private server.

    Attributes:
        url: Full URL of the invocations of its one endpoint.
        pid: Its process.
    """

    url: str
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds, user and system, that the server has used so far."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@contextlib.contextmanager
def private_server(
    *, store: ObjectStore, settings: Settings, prefix: str, endpoint: str, served: ServedVersion, log: Path
) -> Iterator[PrivateServer]:
    """Serve one version on a free port for as long as the block runs.

    The server ends with the block, also when it fails, and with this process, also when that is killed.

    Args:
        store: The object store.
        settings: Settings that the server gets.
        prefix: Store prefix for its desired and actual state; nobody else may use it.
        endpoint: Name of the endpoint.
        served: What to serve.
        log: File for the server's output.

    Raises:
        RuntimeError: The server ended, refused the model, or did not answer in time.
    """
    request_version(store, endpoint, served, prefix=prefix)
    try:
        with log.open("wb") as out, _process(settings, prefix, out) as process:
            url = _wait_until_serving(process, store, endpoint, prefix, log)
            yield PrivateServer(url=f"{url}/{endpoint}/invocations", pid=process.pid)
    finally:
        store.delete(desired_key(endpoint, prefix=prefix))
        store.delete(actual_key(endpoint, prefix=prefix))


@contextlib.contextmanager
def _process(settings: Settings, prefix: str, out: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "include.serving.server", "--port", "0", "--prefix", prefix),
            *("--poll-s", "0.1", "--die-with-parent"),
        ],
        stdout=out,
        stderr=subprocess.STDOUT,
        cwd=REPO,
        env={**os.environ, **settings.to_environment()},
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_serving(
    process: subprocess.Popen[bytes], store: ObjectStore, endpoint: str, prefix: str, log: Path
) -> str:
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(
                f"model server ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}"
            )
        actual = read_actual(store, endpoint, prefix=prefix)
        if actual is not None and actual.state == "serving":
            return actual.url
        if actual is not None and actual.state == "failed":
            raise RuntimeError(f"model server cannot serve the artefact: {actual.error}")
        time.sleep(0.05)
    raise RuntimeError(
        f"model server did not serve within {START_LIMIT_S:.0f} s: {log.read_text(errors='replace')[-2000:]}"
    )
