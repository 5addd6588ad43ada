"""Job ``deploy``: ask the supervised server for the registered version, test it, make it champion, or roll back.

The job writes desired state and never starts a server. Input: ``registered`` (result of register).
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from include.config.job_messages import DeployResult, RegisterResult
from include.config.settings import REPO
from include.core.contracts.dataset import DatasetManifest
from include.core.errors import GateError, PlimsollError, UserError
from include.core.store import ObjectStore
from include.data.encoding import load_split, read_manifest, read_shard
from include.jobs.chosen_artefact import chosen_scorecard, required_dataset
from include.jobs.context import JobContext
from include.registry.mlflow_registry import MlflowRegistry
from include.serving.client import EndpointClient, InvocationError
from include.serving.desired import DesiredState, ServedVersion, mark_verified, request_version
from include.serving.rollout import require_server, undo, wait_until_served
from include.serving.smoke import disagreements, run_smoke, smoke_failures

_log = logging.getLogger("plimsoll.deploy")
# Rows sent to the endpoint and compared with the registered version; all where the test split has fewer.
COMPARED_ROWS = 200
_FRESH_LIMIT_S = 120.0
_SAMPLE_LIMIT_BYTES = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is deployed, and the test rows that decide."""

    endpoint: str
    served: ServedVersion
    manifest: DatasetManifest
    rows: NDArray[np.float32]
    labels: list[str]
    expected_accuracy: float
    slo_p99_ms: float


def run(context: JobContext) -> DeployResult:
    """Deploy the registered version of ``request.verdict``'s choice to the endpoint of the workload.

    Raises:
        UserError: The request lacks something, or no model server answers.
        GateError: The version failed a test; the previous one is asked for again.
        PlimsollError: Registry or store failed on the way; the previous version is asked for again, a retry may help.
    """
    registry = MlflowRegistry(context.settings.mlflow_uri)
    require_server(context.settings.serving_url)
    order = _order(context, registry)
    with _FreshProcess(context, order) as fresh:
        desired = request_version(context.store, order.endpoint, order.served)
        try:
            sample = _test(context, order, desired, fresh)
            previous = registry.promote(order.served.model_name, order.served.version)
        except Exception as error:  # noqa: BLE001 - whatever failed, the endpoint must not keep an untested version
            _give_up(context, order, desired, error)
    mark_verified(context.store, order.endpoint, desired)
    return DeployResult(
        endpoint=order.endpoint,
        url=f"{context.settings.serving_url}/{order.endpoint}/invocations",
        version=order.served.version,
        previous=previous,
        rolled_back=False,
        sample=sample,
        agreement_rows=len(order.rows),
        agrees=True,
    )


def _give_up(context: JobContext, order: _Order, desired: DesiredState, error: Exception) -> NoReturn:
    outcome = undo(context.store, order.endpoint, desired)
    message = f"deployment of version {order.served.version} failed: {error}"
    if isinstance(error, UserError | InvocationError):
        raise GateError(message, where=f"endpoint {order.endpoint}", found=outcome) from error
    raise PlimsollError(f"{message} | where: endpoint {order.endpoint} | found: {outcome}") from error


def _order(context: JobContext, registry: MlflowRegistry) -> _Order:
    request = context.request
    raw = request.inputs.get("registered")
    if not raw:
        raise UserError("deploy request is incomplete", where=request.base, found="no inputs.registered")
    registered, scorecard = RegisterResult.model_validate(raw), chosen_scorecard(request)
    version = registry.get(registered.model_name, registered.version)
    if version.lineage is None or version.lineage.sha256 != scorecard.sha256:
        raise UserError(
            "the registered version is not the artefact that was chosen",
            where=f"models:/{version.model_name}/{version.version}",
            found=version.lineage.sha256 if version.lineage else "no lineage",
            allowed=scorecard.sha256,
            todo="run register again",
        )
    # The encoding belongs to the version, the test rows to this run.
    manifest = read_manifest(context.store, required_dataset(request).uri)
    rows, labels = load_split(context.store, manifest, "test")
    return _Order(
        endpoint=request.workload.endpoint,
        served=ServedVersion(
            model_name=version.model_name,
            version=version.version,
            model_uri=version.lineage.model_uri,
            sha256=version.lineage.sha256,
            manifest_uri=version.lineage.manifest_uri,
        ),
        manifest=manifest,
        rows=rows[:COMPARED_ROWS],
        labels=[manifest.classes[index] for index in labels[:COMPARED_ROWS]],
        expected_accuracy=scorecard.accuracy,
        slo_p99_ms=request.workload.serving.slo_p99_ms,
    )


def _test(context: JobContext, order: _Order, desired: DesiredState, fresh: _FreshProcess) -> dict[str, Any]:
    """All tests of a deployment.

    Returns:
        One real request with raw columns, and its answer.

    Raises:
        GateError: What failed.
    """
    wait_until_served(context.store, order.endpoint, desired)
    context.progress(fraction=0.3, state="serving", version=order.served.version)
    with EndpointClient(context.settings.serving_url, order.endpoint) as client:
        report = run_smoke(client, order.rows, order.labels, slo_p99_ms=order.slo_p99_ms)
        request = {"dataframe_records": _raw_records(context.store, order.manifest)}
        raw = client.invoke(request)
    failures = smoke_failures(
        report, version=order.served.version, slo_p99_ms=order.slo_p99_ms, expected_accuracy=order.expected_accuracy
    )
    if raw.predictions != report.answers[0].predictions:
        failures.append("raw columns are encoded differently from the encoded row of the test split")
    context.progress(fraction=0.6, state="smoke test done", p99_ms=round(report.p99_ms, 2), accuracy=report.accuracy)
    differing = disagreements(report.answers, fresh.logits(), order.manifest.classes)
    if differing:
        failures.append(f"{len(differing)} of {len(order.rows)} rows differ from the registered version")
    if failures:
        raise GateError("; ".join(failures))
    return _sample(context, request, raw.predictions)


def _raw_records(store: ObjectStore, manifest: DatasetManifest) -> list[dict[str, Any]]:
    """The first test row as a client would send it."""
    shard = next(shard for shard in manifest.shards if shard.split == "test" and shard.rows)
    table = read_shard(store, shard).slice(0, 1).select([feature.name for feature in manifest.features])
    return [dict(row) for row in table.to_pylist()]


def _sample(context: JobContext, request: dict[str, Any], predictions: list[dict[str, Any]]) -> dict[str, Any]:
    """Request and answer; by reference where they are too large to travel between tasks."""
    sample = {"request": request, "predictions": predictions}
    if len(json.dumps(sample)) <= _SAMPLE_LIMIT_BYTES:
        return sample
    key = f"{context.request.run_prefix}/serving/sample.json"
    context.store.put_json(key, sample)
    return {"uri": context.store.uri(key), "label": predictions[0]["label"]}


class _FreshProcess:
    """Scores the rows with the registered version in a process that shares nothing with the server or this one.

    It runs beside the smoke test, since loading MLflow takes seconds.
    """

    def __init__(self, context: JobContext, order: _Order) -> None:
        self._rows = context.job_dir / "rows.npy"
        self._out = context.job_dir / "logits.npy"
        self._log: Path = context.job_dir / "predict_version.log"
        np.save(self._rows, order.rows, allow_pickle=False)
        self._command = [
            *(sys.executable, "-m", "include.registry.predict_version", "--registry", context.settings.mlflow_uri),
            *("--model", order.served.model_name, "--version", order.served.version),
            *("--rows", str(self._rows), "--out", str(self._out)),
        ]

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, cwd=REPO)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def logits(self) -> NDArray[np.float32]:
        """Its answers, shape (rows, classes).

        Raises:
            PlimsollError: It failed.
        """
        code = self._process.wait(_FRESH_LIMIT_S)
        if code != 0:
            text = self._log.read_text(errors="replace").strip()
            _log.error("scoring the registered version failed\n%s", text[-4000:])
            raise PlimsollError(f"the registered version cannot be scored (exit {code}): {text.rpartition(chr(10))[2]}")
        return np.asarray(np.load(self._out, allow_pickle=False), np.float32)
