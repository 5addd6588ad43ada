from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from include.config.settings import REPO, Settings
from include.core.store import ObjectStore
from include.serving.client import EndpointClient, InvocationError, server_answers
from include.serving.desired import read_actual, request_version
from include.serving.private_server import private_server
from include.serving.rollout import wait_until_served
from tests.support.models import put_version

pytestmark = pytest.mark.integration
BODY = {"inputs": [[1.0, 2.0, 3.0, 4.0]]}


def test_it_follows_the_store_and_swaps_under_load_without_losing_a_request(
    any_store: ObjectStore, model_server: Callable[..., str]
) -> None:
    url = model_server(any_store)
    wait_until_served(any_store, "toy", request_version(any_store, "toy", put_version(any_store, version="1")))
    versions: list[str] = []
    errors: list[Exception] = []
    done = threading.Event()

    def ask() -> None:
        with EndpointClient(url, "toy") as client:
            while not done.is_set():
                try:
                    versions.append(client.invoke(BODY).version)
                except InvocationError as error:
                    errors.append(error)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for version in ("2", "3"):
        wait_until_served(any_store, "toy", request_version(any_store, "toy", put_version(any_store, version=version)))
        expected = len(versions) + 20
        while len(versions) < expected and not errors:
            time.sleep(0.01)
    done.set()
    for client in clients:
        client.join()
    assert errors == []
    assert set(versions) == {"1", "2", "3"}


def test_it_ends_on_sigterm_and_says_so(file_store: ObjectStore, settings_for: Callable[..., Settings]) -> None:
    request_version(file_store, "toy", put_version(file_store))
    process = start(file_store, settings_for, "--port", "0")
    until_serving(file_store)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in {0, -signal.SIGTERM}
    actual = read_actual(file_store, "toy")
    assert actual is not None
    assert (actual.state, actual.version) == ("stopped", None)


def test_it_imports_nothing_heavy_and_starts_quickly() -> None:
    code = (
        "import sys, time; import include.serving.server, uvicorn, onnxruntime, include.serving.endpoints; "
        "heavy = {'torch', 'mlflow', 'pandas', 'pyarrow', 'sklearn', 'onnx', 'airflow', 'boto3'} & set(sys.modules); "
        "assert not heavy, heavy; print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    # CPU seconds of this process's start, not wall time: what others do on the machine does not count.
    assert float(done.stdout) < 2.0


def test_a_port_in_use_is_one_clear_line(file_store: ObjectStore, settings_for: Callable[..., Settings]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(file_store, settings_for, "--port", str(port))
        _, text = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in text
    assert "Traceback" not in text


def test_a_private_server_ends_when_its_parent_is_killed(file_store: ObjectStore, tmp_path: Path) -> None:
    served = put_version(file_store)
    code = (
        "import sys, time, pathlib; from include.config.settings import Settings; "
        "from include.core.store import ObjectStore; from include.serving.desired import ServedVersion; "
        "from include.serving.private_server import private_server; "
        "store, served = ObjectStore(sys.argv[1]), ServedVersion.model_validate_json(sys.argv[2])\n"
        "with private_server(store=store, settings=Settings(store=store.url), prefix='mine', endpoint='toy', "
        "served=served, log=pathlib.Path(sys.argv[3])) as server: print(server.pid, flush=True); time.sleep(60)"
    )
    arguments = [file_store.url, served.model_dump_json(), str(tmp_path / "server.log")]
    parent = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=REPO, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    server = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    psutil.wait_procs([server], timeout=10)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def test_a_private_server_serves_one_version_and_leaves_nothing(
    file_store: ObjectStore, settings_for: Callable[..., Settings], tmp_path: Path
) -> None:
    served = put_version(file_store)
    with private_server(
        store=file_store,
        settings=settings_for(file_store),
        prefix="mine",
        endpoint="toy",
        served=served,
        log=tmp_path / "server.log",
    ) as server:
        with urllib.request.urlopen(server.url, json.dumps(BODY).encode()) as answer:
            assert answer.headers["X-Model-Version"] == "1"
        base = server.url.removesuffix("/toy/invocations")
        assert server_answers(base)
        assert server.cpu_s() > 0
    assert not server_answers(base)
    assert not list(file_store.list("mine"))


def start(store: ObjectStore, settings_for: Callable[..., Settings], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "include.serving.server", "--poll-s", "0.05", *arguments],
        cwd=REPO,
        env={**os.environ, **settings_for(store).to_environment()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_serving(store: ObjectStore) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        actual = read_actual(store, "toy")
        if actual is not None and actual.state == "serving":
            return
        time.sleep(0.02)
    raise AssertionError("not serving")
