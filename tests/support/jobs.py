"""Run jobs the way an agent does: a request in the store, a process of its own, documents back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from include.config.job_messages import JobRequest
from include.config.loader import load_workload
from include.config.settings import REPO, Settings
from include.config.workload import Workload
from include.core.ids import job_name, run_prefix
from include.core.store import ObjectStore


class JobRun(NamedTuple):
    """How one job process ended."""

    exit_code: int
    result: dict[str, Any] | None
    outcome: dict[str, Any] | None
    log: str


def workload(name: str = "digits", **sections: dict[str, Any]) -> Workload:
    """A shipped workload with some sections laid over it, small enough for tests (two epochs unless told otherwise).

    >>> workload("digits", training={"epochs": 1}).training.epochs
    1
    """
    raw = load_workload(REPO / "include" / "workloads" / f"{name}.yaml").model_dump(mode="json")
    raw["training"]["epochs"] = 2
    for section, values in sections.items():
        raw[section] = {**raw[section], **values} if isinstance(raw.get(section), dict) else values
    return Workload.model_validate(raw)


def build_request(
    kind: str, *, order: Workload | None = None, run_id: str = "test-run", attempt: int = 1, **fields: Any
) -> JobRequest:
    """A valid request of one attempt; `fields` are further fields of `JobRequest`, for example ``dataset``."""
    order = order or workload()
    prefix = run_prefix(workload=order.name, run_id=run_id)
    recipe = fields.get("recipe")
    name = job_name(kind=kind, item=getattr(recipe, "name", ""), attempt=attempt)
    values: dict[str, Any] = {
        "kind": kind,
        "workload": order,
        "run_id": run_id,
        "run_prefix": prefix,
        "base": f"{prefix}/jobs/{name}",
        "attempt": attempt,
        "code_version": "test",
    }
    return JobRequest(**{**values, **fields})


def job_environment(settings: Settings, job_dir: Path) -> dict[str, str]:
    """Environment of a job process: this process's, with the given settings for all ``PLIMSOLL_*``."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLIMSOLL_")}
    return {
        **inherited,
        **settings.to_environment(),
        "PLIMSOLL_JOB_DIR": str(job_dir),
        "PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'plugins'}",
        "OMP_NUM_THREADS": "1",
    }


def run_job_process(
    *, request: JobRequest, store: ObjectStore, settings: Settings, job_dir: Path, timeout_s: float = 240
) -> JobRun:
    """Put the request into the store, run ``python -m include.jobs`` in an empty folder and read what it left."""
    request_key = f"{request.base}/request.json"
    store.put_json(request_key, request.model_dump(mode="json"))
    job_dir.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "include.jobs", request.kind, store.uri(request_key)],
        env=job_environment(settings, job_dir),
        cwd=job_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    return JobRun(
        exit_code=done.returncode,
        result=store.get_json(f"{request.base}/result.json"),
        outcome=store.get_json(f"{request.base}/outcome.json"),
        log=done.stdout,
    )
