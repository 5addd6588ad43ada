"""Fixtures for every room: object stores on files and on S3, settings in temporary folders, jobs as real processes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.store import ObjectStore
from tests.support.jobs import JobRun, build_request, run_job_process

BUCKET = "plimsoll-test"


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """URL of an S3 server that lives as long as the test session, with one bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # else one line per request in every failure report
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    credentials = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **credentials).create_bucket(Bucket=BUCKET)
    yield endpoint
    server.stop()


@pytest.fixture
def s3_environment(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """``AWS_*`` variables that point this process and its children at the S3 server; returns the endpoint."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_ENDPOINT_URL": moto_endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    return moto_endpoint


@pytest.fixture
def file_store(tmp_path: Path) -> ObjectStore:
    """An empty store in a temporary folder."""
    return ObjectStore(f"file://{tmp_path / 'store'}")


@pytest.fixture
def s3_store(s3_environment: str) -> ObjectStore:
    """An empty store under a fresh prefix of the S3 server."""
    return ObjectStore(f"s3://{BUCKET}/{uuid.uuid4().hex}")


@pytest.fixture(params=["file", "s3"])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """The same test on files and on S3."""
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def settings_for(tmp_path: Path) -> Callable[..., Settings]:
    """``settings_for(store, **overrides)``: settings that use this store and write only below the test's folder."""

    def build(store: ObjectStore, **overrides: Any) -> Settings:
        values: dict[str, Any] = {
            "store": store.url,
            "ledger": f"sqlite:///{tmp_path / 'ledger.db'}",
            "work_root": tmp_path / "work",
            "data_roots": (tmp_path / "data",),
            "energy_meter": "estimate",
        }
        return Settings.model_validate({**values, **overrides})

    return build


@pytest.fixture
def job_request() -> Callable[..., JobRequest]:
    """``job_request(kind, order=workload, run_id=..., attempt=..., **fields)``: see `tests.support.jobs`."""
    return build_request


@pytest.fixture
def run_job(tmp_path: Path, settings_for: Callable[..., Settings]) -> Callable[..., JobRun]:
    """``run_job(kind, request, store, job_dir=None, settings=None)``: a real process; unpacks to four values."""

    def run(
        kind: str,
        request: JobRequest,
        store: ObjectStore,
        job_dir: Path | None = None,
        *,
        settings: Settings | None = None,
    ) -> JobRun:
        assert request.kind == kind
        folder = job_dir or tmp_path / f"job-{uuid.uuid4().hex[:8]}"
        return run_job_process(request=request, store=store, settings=settings or settings_for(store), job_dir=folder)

    return run


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The real Airflow stack in a folder of its own, once per session: see `tests.support.real_stack`."""
    from tests.support.real_stack import real_stack  # what starts a stack is of no use to the other tests

    with real_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running
