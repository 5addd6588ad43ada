"""A registry in a SQLite file, made once: creating MLflow's tables costs seconds, copying the file does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from include.registry.mlflow_registry import MlflowRegistry


@pytest.fixture(scope="session")
def empty_registry_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with MLflow's tables and nothing in them."""
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
