"""Jobs on the toy dataset: the request that follows a verdict, run in this process or in one of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.store import ObjectStore
from include.jobs.context import JobContext
from tests.support.jobs import build_request, workload
from tests.support.models import linear_model, put_dataset, verdict_for


@pytest.fixture
def toy_request() -> Callable[..., JobRequest]:
    """``toy_request(kind, store, model=..., **inputs)``: a request for the toy dataset's chosen artefact."""

    def build(
        kind: str, store: ObjectStore, *, model: bytes | None = None, truth: bytes | None = None, **inputs: Any
    ) -> JobRequest:
        model = model or linear_model()
        store.put("runs/picture.png", b"png")
        return build_request(
            kind,
            order=workload("digits", registry={"model_name": "toy"}).model_copy(update={"name": "toy"}),
            dataset=put_dataset(store, model=truth or model),
            verdict=verdict_for(store, model=model),
            checkpoint_uri=store.uri("runs/checkpoint"),
            inputs={"weights_digest": "w", "picture_uri": store.uri("runs/picture.png"), **inputs},
        )

    return build


@pytest.fixture
def context_for(tmp_path: Path, settings_for: Callable[..., Settings]) -> Callable[..., JobContext]:
    """``context_for(request, store, **settings)``: run a job in this process, with an empty folder."""

    def build(request: JobRequest, store: ObjectStore, **overrides: Any) -> JobContext:
        job_dir = tmp_path / f"job-{request.kind}-{request.attempt}"
        job_dir.mkdir(exist_ok=True)
        return JobContext(request=request, settings=settings_for(store, **overrides), store=store, job_dir=job_dir)

    return build
