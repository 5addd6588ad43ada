"""Job ``evaluate``: measure one candidate, reloaded in this fresh process. Imports no torch."""

from __future__ import annotations

from include.config.job_messages import EvaluateResult
from include.core.contracts.dataset import DatasetManifest
from include.core.errors import StoreError, UserError
from include.core.store import ObjectStore
from include.data.encoding import load_split, read_manifest
from include.evaluation.measure import LabelledRows, measure
from include.jobs.context import JobContext


def run(context: JobContext) -> EvaluateResult:
    """Scorecard of ``request.candidate`` on the splits of ``request.dataset``.

    Raises:
        UserError: The request lacks something.
        StoreError: The model file is missing or is not the one that was compressed.
    """
    request = context.request
    if request.candidate is None or request.dataset is None:
        raise UserError("evaluate request is incomplete", where=request.base, found="no candidate or no dataset")
    path = context.job_dir / "model.onnx"
    try:
        context.store.download(context.store.key_of(request.candidate.model_uri), path)
    except FileNotFoundError as error:
        raise StoreError(f"model file is missing | where: {request.candidate.model_uri}") from error
    manifest = read_manifest(context.store, request.dataset.uri)
    scorecard = measure(
        candidate=request.candidate,
        path=path,
        validation=_rows(context.store, manifest, "validation"),
        test=_rows(context.store, manifest, "test"),
    )
    context.progress(fraction=1.0, accuracy=scorecard.accuracy, size_bytes=scorecard.size_bytes)
    return EvaluateResult(scorecard=scorecard)


def _rows(store: ObjectStore, manifest: DatasetManifest, split: str) -> LabelledRows:
    x, y = load_split(store, manifest, split)
    return LabelledRows(x=x, y=y)
