"""Job ``register``: find the chosen artefact in the registry by its digest, or register it; make it the challenger.

Inputs: ``weights_digest``, ``picture_uri`` and optionally ``interactive_uri`` and ``plan``.
"""

from __future__ import annotations

import json

from include.config.job_messages import JobRequest, RegisterResult
from include.core.contracts.scorecard import Scorecard
from include.core.errors import StoreError, UserError
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.data.encoding import read_manifest
from include.jobs.chosen_artefact import chosen_scorecard, required_dataset
from include.jobs.context import JobContext
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.versions import CHALLENGER, Lineage, RegisteredVersion, Registration, RunKey


def run(context: JobContext) -> RegisterResult:
    """Register the artefact that ``request.verdict`` chose.

    Raises:
        UserError: The request lacks something.
        StoreError: The artefact is missing or is not the one that was scored.
    """
    registry = MlflowRegistry(context.settings.mlflow_uri)
    order = _registration(context)
    registered = registry.register(order)
    version = registered.version
    if not registered.created:
        version = _with_living_copy(context.store, registry, version, order.lineage)
    registry.challenge(version.model_name, version.version)
    context.progress(fraction=1.0, version=version.version, created=registered.created)
    return RegisterResult(
        model_name=version.model_name,
        version=version.version,
        created=registered.created,
        mlflow_run_id=version.mlflow_run_id,
        alias=CHALLENGER,
        sha256=order.lineage.sha256,
    )


def _registration(context: JobContext) -> Registration:
    request, store = context.request, context.store
    scorecard, dataset = chosen_scorecard(request), required_dataset(request)
    manifest = read_manifest(store, dataset.uri)
    return Registration(
        run=RunKey(workload=request.workload.name, run_id=request.run_id),
        model_name=request.workload.registry.model_name,
        model=_content(store, scorecard.model_uri),
        input_shape=manifest.input_shape,
        classes=len(manifest.classes),
        lineage=Lineage(
            sha256=scorecard.sha256,
            model_uri=scorecard.model_uri,
            manifest_uri=dataset.uri,
            data_fingerprint=dataset.fingerprint,
            code_version=request.code_version,
            checkpoint_uri=_needed(request, "checkpoint_uri", request.checkpoint_uri),
            weights_digest=_needed(request, "inputs.weights_digest", request.inputs.get("weights_digest")),
            recipe=scorecard.recipe,
        ),
        documents=_documents(request, store, scorecard),
        metrics=_metrics(scorecard),
    )


def _needed(request: JobRequest, name: str, value: str | None) -> str:
    if not value:
        raise UserError("register request is incomplete", where=request.base, found=f"no {name}")
    return value


def _content(store: ObjectStore, uri: str) -> bytes:
    data = store.get(store.key_of(uri))
    if data is None:
        raise StoreError(f"object is missing | where: {uri}")
    return data


def _documents(request: JobRequest, store: ObjectStore, scorecard: Scorecard) -> dict[str, bytes]:
    assert request.verdict is not None
    documents = {
        "recipe.json": _content(store, f"{scorecard.model_uri.rpartition('/')[0]}/recipe.json"),
        "verdict.json": _json(to_json(request.verdict)),
        "scorecards.json": _json([to_json(card) for card in request.verdict.scorecards]),
        "pareto.png": _content(store, _needed(request, "inputs.picture_uri", request.inputs.get("picture_uri"))),
    }
    if uri := request.inputs.get("interactive_uri"):
        documents["pareto.html"] = _content(store, uri)
    if plan := request.inputs.get("plan"):
        documents["plan.json"] = _json(plan)
    return documents


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


def _metrics(scorecard: Scorecard) -> dict[str, float]:
    metrics = {
        "accuracy": scorecard.accuracy,
        "accuracy_low": scorecard.accuracy_low,
        "accuracy_high": scorecard.accuracy_high,
        "validation_accuracy": scorecard.validation_accuracy,
        "size_bytes": float(scorecard.size_bytes),
        "peak_rss_bytes": float(scorecard.peak_rss_bytes),
    }
    for latency in scorecard.latencies:
        metrics[f"p95_ms_batch_{latency.batch}"] = latency.p95_ms
        metrics[f"cpu_ms_batch_{latency.batch}"] = latency.cpu_ms
    return metrics


def _with_living_copy(
    store: ObjectStore, registry: MlflowRegistry, version: RegisteredVersion, lineage: Lineage
) -> RegisteredVersion:
    """The version, referring to this run's copy of the artefact where the copy it refers to is gone."""
    assert version.lineage is not None
    if all(_is_there(store, uri) for uri in (version.lineage.model_uri, version.lineage.manifest_uri)):
        return version
    return registry.repoint(version, lineage)


def _is_there(store: ObjectStore, uri: str) -> bool:
    try:
        return store.exists(store.key_of(uri))
    except UserError:
        return False
