"""Job ``profile``: what the training needs, found without a GPU and without training.

Where the machine has a GPU, a few real steps on it are measured besides, from which the next plans learn.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from include.config.job_messages import ProfileResult
from include.core.contracts.demand import Demand
from include.core.contracts.device_profile import DeviceProfile
from include.core.errors import UserError
from include.core.json_codec import from_json, to_json
from include.data.manifest import read_manifest
from include.jobs.context import JobContext
from include.sizing.measure_loading import loader_samples_per_core_s
from include.sizing.sandbox import SandboxLimits, run_limited

# Runs the factory; this process never does.
TRACER = "include.jobs.profile_model:find_demand"
_log = logging.getLogger("plimsoll.profile")


def run(context: JobContext) -> ProfileResult:
    """Trace and measure one training step of the workload's model on the prepared data's shape.

    Raises:
        UserError: The request names no dataset, or the model cannot be built within the limits or does not take the
            data.
    """
    request, settings = context.request, context.settings
    if request.dataset is None:
        raise UserError("the request names no dataset", where="request.dataset", todo="run prepare first")
    manifest = read_manifest(context.store, request.dataset.uri)
    context.progress(fraction=0.1, doing="measuring the loader")
    loading = loader_samples_per_core_s(
        manifest,
        store=context.store.url,
        cache=settings.work_root / "shards",
        cache_bytes=settings.shard_cache_bytes,
        batch_size=request.workload.training.batch_size,
        seed=request.workload.training.seed,
    )
    context.progress(fraction=0.2, doing="tracing steps")
    answer = run_limited(
        TRACER,
        {
            "request": request.model_dump(mode="json"),
            "manifest": to_json(manifest),
            "threads": settings.torch_threads,
            "most_memory_bytes": settings.profile_memory_bytes,
            "loader_samples_per_core_s": loading,
            "dcgm_url": settings.dcgm_url,
            "folder": str(context.job_dir),
        },
        limits=SandboxLimits(seconds=settings.profile_timeout_s, memory_bytes=settings.profile_memory_bytes),
        folder=context.job_dir,
        where=f"model.factory {request.workload.model.factory}",
    )
    demand = from_json(Demand, answer["demand"])
    device = None if answer["device"] is None else from_json(DeviceProfile, answer["device"])
    key = f"{request.run_prefix}/demand.json"
    context.store.put_json(key, answer["demand"])
    brief = replace(demand, cases=())
    _log.info("demand: %s", brief)
    if device is not None:
        _log.info("on its own device: %s", device)
    return ProfileResult(demand=brief, demand_uri=context.store.uri(key), device=device)
