"""A registry in a SQLite file and a supervised model server, for the rooms and jobs that need them."""

from __future__ import annotations

import os
import shutil
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
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 30
        while time.monotonic() < until and process.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/ping", timeout=5).close()
            except OSError:
                time.sleep(0.02)
            else:
                return url
        raise AssertionError((tmp_path / "model-server.log").read_text())

    yield start
    for process in running:
        process.terminate()
        process.wait(20)
