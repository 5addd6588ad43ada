"""Job ``compress``: make the candidate of one recipe."""

from __future__ import annotations

from include.compression.apply import Workshop
from include.compression.source import Source
from include.config.job_messages import CompressResult, JobRequest
from include.core.contracts.dataset import DatasetRef
from include.core.contracts.recipe import Recipe
from include.core.errors import UserError
from include.data.encoding import read_manifest
from include.jobs.context import JobContext


def run(context: JobContext) -> CompressResult:
    """Apply ``request.recipe`` to the weights named in ``request.inputs``.

    Raises:
        UserError: The request lacks something, or the recipe cannot be applied.
        StoreError: The weights cannot be used.
    """
    recipe, dataset, checkpoint_uri = _required(context.request)
    source = Source(
        workload=context.request.workload,
        manifest=read_manifest(context.store, dataset.uri),
        weights_uri=str(context.request.inputs["weights_uri"]),
        weights_digest=str(context.request.inputs["weights_digest"]),
        checkpoint_uri=checkpoint_uri,
    )
    workshop = Workshop(
        store=context.store,
        run_prefix=context.request.run_prefix,
        scratch=context.job_dir,
        progress=lambda fraction, doing: context.progress(fraction=fraction, doing=doing),
    )
    candidate, cached_steps = workshop.apply(recipe, source)
    context.progress(fraction=1.0, doing="done")
    return CompressResult(candidate=candidate, cached_steps=cached_steps)


def _required(request: JobRequest) -> tuple[Recipe, DatasetRef, str]:
    missing = [name for name in ("recipe", "dataset", "checkpoint_uri") if getattr(request, name) is None]
    missing += [f"inputs.{name}" for name in ("weights_uri", "weights_digest") if not request.inputs.get(name)]
    if request.recipe is None or request.dataset is None or request.checkpoint_uri is None or missing:
        raise UserError("compress request is incomplete", where=request.base, found=f"no {', '.join(missing)}")
    return request.recipe, request.dataset, request.checkpoint_uri
