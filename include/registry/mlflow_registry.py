"""The registry on MLflow: find or create by digest, and aliases.

MLflow is imported inside functions only: it costs seconds. Aliases are used, never stages. MLflow has
no unique key over tags, so "one version per digest" is kept by a rule that every caller follows: of all versions with
the digest the lowest number is the version, and whoever sees a higher one that no alias points to removes it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from include.core.errors import UserError
from include.registry.mlflow_connection import ABSENT, EXISTS, TAG, MlflowConnection, tags_of, tolerating
from include.registry.mlflow_runs import MlflowRuns
from include.registry.versions import (
    CHALLENGER,
    CHAMPION,
    PREVIOUS,
    Lineage,
    Registered,
    RegisteredVersion,
    Registration,
    RegistryError,
)

_MODEL = "model"
# MLflow logs models through the state of its module: threads of one process would mix theirs.
_LOGGING = threading.Lock()


class MlflowRegistry:
    """Registry and run figures behind one tracking URI.

    Args:
        uri: ``http://host:port`` of a server, or ``sqlite:///path`` without one; artefacts then lie beside the file.
    """

    def __init__(self, uri: str) -> None:
        self._connection = MlflowConnection(uri)
        self.runs = MlflowRuns(self._connection)

    @property
    def _client(self) -> Any:  # noqa: ANN401 - MLflow is not typed here
        return self._connection.client

    def must_exist(self) -> None:
        """Raise where reading would make an empty registry.

        Raises:
            RegistryError: The SQLite file is absent.
        """
        self._connection.must_exist()

    # ---------------------------------------------------------------- registration

    def register(self, order: Registration) -> Registered:
        """Find the version with this digest, or create it. Safe to repeat after a crash at any point.

        Args:
            order: What to register.

        Raises:
            RegistryError: The bytes do not have the digest of the lineage.
        """
        found_digest = hashlib.sha256(order.model).hexdigest()
        if found_digest != order.lineage.sha256:
            raise RegistryError(f"artefact has sha256 {found_digest}, lineage says {order.lineage.sha256}")
        self._connection.set_module_state()
        experiment = self.runs.experiment(order.run.workload)
        run = self.runs.find(experiment, order.run)
        self.runs.log_documents(run, order)
        with tolerating(EXISTS):
            self._client.create_registered_model(order.model_name)
        existing = self._settle(order.model_name, order.lineage.sha256)
        if existing is not None:
            return Registered(version=existing, created=False)
        with _LOGGING:
            model_id = self._logged(experiment, run, order.lineage.sha256) or self._log_model(run, order)
        mine = str(self._create_version(order, run, model_id).version)
        version = self._settle(order.model_name, order.lineage.sha256)
        if version is None:
            raise RegistryError(f"{order.model_name} version {mine} was created and cannot be found")
        return Registered(version=version, created=version.version == mine)

    def _create_version(self, order: Registration, run: str, model_id: str) -> Any:  # noqa: ANN401 - MLflow is not typed
        return self._client.create_model_version(
            order.model_name, f"models:/{model_id}", run_id=run, tags=tags_of(order.lineage), model_id=model_id
        )

    def _settle(self, model_name: str, sha256: str) -> RegisteredVersion | None:
        """The version of a digest: the lowest. Higher ones without an alias are what a lost race left."""
        found = self._client.search_model_versions(f"name = '{model_name}' and tags.`{TAG}sha256` = '{sha256}'")
        # The search only says where to look: what it found is read again one by one.
        versions = [self._get(model_name, str(item.version)) for item in found]
        same = [item for item in versions if item and item.lineage and item.lineage.sha256 == sha256]
        same.sort(key=lambda item: int(item.version))
        for surplus in same[1:]:
            if not surplus.aliases:
                with tolerating(ABSENT):
                    self._client.delete_model_version(model_name, surplus.version)
        return same[0] if same else None

    def _logged(self, experiment: str, run: str, sha256: str) -> str | None:
        """Id of a model that this run logged before it was interrupted."""
        logged = self._client.search_logged_models([experiment], filter_string=f"tags.`{TAG}sha256` = '{sha256}'")
        ready = [item for item in logged if item.source_run_id == run and str(item.status) == "READY"]
        return str(ready[0].model_id) if ready else None

    def _log_model(self, run: str, order: Registration) -> str:
        import mlflow
        import mlflow.onnx
        import onnx
        import onnxruntime
        from mlflow.models import ModelSignature
        from mlflow.types import Schema, TensorSpec

        proto = onnx.load_from_string(order.model)
        float32 = np.dtype(np.float32)
        inputs = TensorSpec(float32, (-1, *order.input_shape), proto.graph.input[0].name)
        outputs = TensorSpec(float32, (-1, order.classes), proto.graph.output[0].name)
        with mlflow.start_run(run_id=run):
            info = mlflow.onnx.log_model(
                proto,
                name=_MODEL,
                signature=ModelSignature(inputs=Schema([inputs]), outputs=Schema([outputs])),
                input_example=np.zeros((1, *order.input_shape), np.float32),
                # Given, so that MLflow does not load the model in another process to find out.
                pip_requirements=[
                    f"onnxruntime=={onnxruntime.__version__}", f"onnx=={onnx.__version__}", f"numpy=={np.__version__}",
                ],
                onnx_execution_providers=["CPUExecutionProvider"],
                save_as_external_data=False,
                tags=tags_of(order.lineage),
            )  # fmt: skip
        return str(info.model_id)

    def repoint(self, version: RegisteredVersion, lineage: Lineage) -> RegisteredVersion:
        """Let a version refer to another copy of the same artefact, when the first one is gone from the store."""
        for name, value in tags_of(lineage).items():
            self._client.set_model_version_tag(version.model_name, version.version, name, value)
        return self.get(version.model_name, version.version)

    # ---------------------------------------------------------------- versions and aliases

    def get(self, model_name: str, version: str) -> RegisteredVersion:
        """One version.

        Raises:
            UserError: There is no such version.
        """
        found = self._get(model_name, version)
        if found is None:
            raise UserError(
                "no such registered version", where=f"models:/{model_name}/{version}", todo="register again"
            )
        return found

    def _get(self, model_name: str, version: str) -> RegisteredVersion | None:
        item = None
        with tolerating(ABSENT):
            item = self._client.get_model_version(model_name, version)
        return None if item is None else _version(item)

    def by_alias(self, model_name: str, alias: str) -> RegisteredVersion | None:
        """The version that an alias points to, None where the alias or the model does not exist."""
        item = None
        # MLflow answers an unknown alias with INVALID_PARAMETER_VALUE.
        with tolerating(ABSENT, "INVALID_PARAMETER_VALUE"):
            item = self._client.get_model_version_by_alias(model_name, alias)
        return None if item is None else _version(item)

    def challenge(self, model_name: str, version: str) -> None:
        """Make a version the challenger."""
        self._point(model_name, CHALLENGER, version)

    def promote(self, model_name: str, version: str) -> str | None:
        """Make a version the champion; the champion so far becomes ``previous``, and the version challenges no more.

        Returns:
            The version that was champion before this one, None for the first.

        Raises:
            RegistryError: An alias does not point where it was pointed to.
        """
        champion = self.by_alias(model_name, CHAMPION)
        if champion is not None and champion.version != version:
            self._point(model_name, PREVIOUS, champion.version)
        self._point(model_name, CHAMPION, version)
        challenger = self.by_alias(model_name, CHALLENGER)
        if challenger is not None and challenger.version == version:
            self._client.delete_registered_model_alias(model_name, CHALLENGER)
        previous = self.by_alias(model_name, PREVIOUS)
        return None if previous is None else previous.version

    def _point(self, model_name: str, alias: str, version: str) -> None:
        self._client.set_registered_model_alias(model_name, alias, version)
        found = self.by_alias(model_name, alias)
        if found is None or found.version != version:
            raise RegistryError(f"alias {alias} of {model_name} points to {found and found.version}, wanted {version}")

    # ---------------------------------------------------------------- reading

    def model_names(self) -> list[str]:
        """Names of all registered models."""
        names: list[str] = []
        token = None
        while True:
            page = self._client.search_registered_models(page_token=token)
            names += [str(model.name) for model in page]
            token = page.token
            if not token:
                return names

    def versions(self, model_name: str) -> list[RegisteredVersion]:
        """All versions of a model, read one by one; a search may leave some out without saying so."""
        newest = self._client.get_registered_model(model_name).latest_versions
        last = max((int(item.version) for item in newest), default=0)
        found = [self._get(model_name, str(number)) for number in range(1, last + 1)]
        return [version for version in found if version is not None]

    def aliases(self, model_name: str) -> dict[str, str]:
        """Aliases of a model and the versions they point to."""
        found = self._client.get_registered_model(model_name).aliases
        return {str(alias): str(version) for alias, version in found.items()}

    def load(self, model_name: str, version: str) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
        """A registered version, loaded from the registry's own copy of the artefact.

        Returns:
            A function from encoded rows to logits of shape (rows, classes).
        """
        self._connection.set_module_state()
        import mlflow.pyfunc

        model = mlflow.pyfunc.load_model(f"models:/{model_name}/{version}")

        def score(rows: NDArray[np.float32]) -> NDArray[np.float32]:
            return np.asarray(next(iter(model.predict(rows).values())), np.float32)

        return score


def _version(item: Any) -> RegisteredVersion:  # noqa: ANN401 - MLflow is not typed
    values = {field.name: item.tags.get(f"{TAG}{field.name}") for field in fields(Lineage)}
    complete = {name: value for name, value in values.items() if value is not None}
    if complete and len(complete) != len(values):
        missing = sorted(set(values) - set(complete))
        raise RegistryError(f"{item.name} version {item.version} has lost lineage tags: {', '.join(missing)}")
    return RegisteredVersion(
        model_name=str(item.name),
        version=str(item.version),
        mlflow_run_id=str(item.run_id or ""),
        aliases=tuple(sorted(map(str, item.aliases))),
        lineage=Lineage(**complete) if complete else None,
    )
