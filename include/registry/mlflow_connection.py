"""How this process talks to MLflow: its client, its module state, and the errors that are answers.

MLflow is imported inside functions only: it costs seconds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from include.registry.versions import Lineage, RegistryError

TAG = "plimsoll."
ABSENT = "RESOURCE_DOES_NOT_EXIST"
EXISTS = "RESOURCE_ALREADY_EXISTS"
_SQLITE = "sqlite:///"
# MLflow's own defaults retry an absent server for minutes; a job has retries of its own.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class MlflowConnection:
    """One tracking URI.

    Args:
        uri: ``http://host:port`` of a server, or ``sqlite:///path`` without one; artefacts then lie beside the file.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @cached_property
    def client(self) -> Any:  # noqa: ANN401 - MLflow is not typed here
        """MLflow's client for this URI."""
        return _mlflow().MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

    @property
    def database(self) -> Path | None:
        """The SQLite file, None with a server."""
        return Path(self.uri.removeprefix(_SQLITE)) if self.uri.startswith(_SQLITE) else None

    def set_module_state(self) -> None:
        """MLflow resolves ``models:/`` URIs and logs models through module state, whatever client is used elsewhere."""
        _mlflow().set_tracking_uri(self.uri)
        _mlflow().set_registry_uri(self.uri)

    def must_exist(self) -> None:
        """Raise where reading would make an empty registry: MLflow creates a SQLite file that is not there.

        Raises:
            RegistryError: The file is absent.
        """
        if self.database is not None and not self.database.exists():
            raise RegistryError(f"the registry at {self.uri} does not exist")


def _mlflow() -> Any:  # noqa: ANN401 - MLflow is not typed here
    """The library, told before its first import to be quiet and not to retry for minutes."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import mlflow

    return mlflow


@contextlib.contextmanager
def tolerating(*codes: str) -> Iterator[None]:
    """Let MLflow's errors of these codes pass: they are an answer."""
    _mlflow()
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code not in codes:
            raise


def tags_of(lineage: Lineage) -> dict[str, str]:
    """The tags of a version, a run or a logged model."""
    return {f"{TAG}{name}": value for name, value in asdict(lineage).items()}
