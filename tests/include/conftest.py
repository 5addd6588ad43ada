"""A registry in a SQLite file and a supervised model server, for the rooms and jobs that need them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from include.config.settings import REPO, Settings
from include.core.store import ObjectStore
from include.registry.mlflow_registry import MlflowRegistry
from tests.support.models import free_port


@pytest.fixture(scope="session")
def empty_registry_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with MLflow's tables and nothing in them: making them costs seconds, copying the file does not."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    assert MlflowRegistry(f"sqlite:///{path}").model_names() == []
    return path


@pytest.fixture
def registry_uri(empty_registry_file: Path, tmp_path: Path) -> str:
    """Tracking URI of an empty registry of the test's own."""
    shutil.copy(empty_registry_file, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def registry(registry_uri: str) -> MlflowRegistry:
    """An empty registry."""
    return MlflowRegistry(registry_uri)


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory, empty_registry_file: Path) -> Iterator[str]:
    """URL of an MLflow server with proxied artefacts, as the stack starts it; shared by all tests of the session."""
    folder = tmp_path_factory.mktemp("mlflow-server")
    shutil.copy(empty_registry_file, folder / "mlflow.db")
    port = free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
            *("--serve-artifacts", "--artifacts-destination", f"file://{folder / 'artifacts'}"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            # Seven more processes that this project has no use for.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        stdout=(folder / "server.log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    yield _wait(process, f"http://127.0.0.1:{port}", "/health", folder / "server.log")
    # Its workers are in its group. Not SIGTERM: it would wait for connections that this process keeps alive.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _wait(process: subprocess.Popen[bytes], url: str, path: str, log: Path) -> str:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}{path}", timeout=5).close()
        except OSError:
            time.sleep(0.02)
        else:
            return url
    raise AssertionError(log.read_text())


@pytest.fixture
def model_server(tmp_path: Path, settings_for: Callable[..., Settings]) -> Iterator[Callable[..., str]]:
    """``model_server(store, *arguments) -> url``: a model server as the stack starts it, ended after the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(store: ObjectStore, *arguments: str) -> str:
        port = free_port()
        process = subprocess.Popen(
            [sys.executable, "-m", "include.serving.server", "--port", str(port), "--poll-s", "0.05", *arguments],
            cwd=REPO,
            env={**os.environ, **settings_for(store).to_environment()},
            stdout=(tmp_path / "model-server.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        running.append(process)
        return _wait(process, f"http://127.0.0.1:{port}", "/ping", tmp_path / "model-server.log")

    yield start
    for process in running:
        process.terminate()
        process.wait(20)
