"""The demand of a workload without Airflow: the jobs ``prepare`` and ``profile`` as processes, their answer kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.config.data_section import UriSource
from include.config.job_messages import JobRequest, PrepareResult
from include.config.settings import Settings
from include.config.workload import Workload
from include.core.code_version import code_version
from include.core.contracts.demand import Demand
from include.core.errors import UserError
from include.core.exit_codes import ExitCode
from include.core.ids import content_digest, digest, job_name
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore
from include.data.location import is_local, stamp_on_disk
from include.data.sources import roots_of
from stack.errors import StackError
from stack.installation import REPO

_LAST_LINES = 15
_JOB_TIMEOUT_S = 1800.0


class JobRefusedError(StackError):
    """A job refused what the workload asks for; the message is the job's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDemand:
    """A demand and where it comes from.

    Attributes:
        demand: The demand.
        cached: Whether an earlier answer was found.
    """

    demand: Demand
    cached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSource:
    """Makes or finds demands of one installation.

    Attributes:
        settings: Settings of the installation.
        say: Where progress goes, a line at a time.
    """

    settings: Settings
    say: Callable[[str], None]

    def of(self, workload: Workload, *, fresh: bool = False) -> FoundDemand:
        """The demand of a workload; an earlier one is found by its data, model, training and the code.

        Args:
            workload: The workload.
            fresh: Make it again even if there is one.

        Raises:
            JobRefusedError: The data or the model cannot be used.
            StackError: A job failed.
        """
        store = ObjectStore(self.settings.store)
        stamp = self._stamp(workload)
        dataset = None if stamp else self._prepare(store, workload)
        identity = [
            workload.data.model_dump(mode="json"),
            workload.model.model_dump(mode="json"),
            workload.training.model_dump(mode="json"),
            code_version(),
            stamp or (dataset and dataset["dataset"]["fingerprint"]),
            self.settings.torch_threads,
        ]
        key = f"demands/{content_digest(identity)}.json"
        kept = None if fresh else self._kept(store, key)
        if kept is not None:
            return FoundDemand(demand=kept, cached=True)
        dataset = dataset or self._prepare(store, workload)
        demand = self._profile(store, workload, dataset)
        store.put_json(key, _sealed(key, demand))
        # What the jobs of a plan wrote is of use only where one of them failed.
        for leftover, _ in list(store.list(f"{_jobs_prefix(workload)}/")):
            store.delete(leftover)
        return FoundDemand(demand=demand, cached=False)

    def _kept(self, store: ObjectStore, key: str) -> Demand | None:
        """The demand that was kept, None where there is none or the file is not as it was written."""
        data = store.get(key)
        if data is None:
            return None
        try:
            raw = json.loads(data)
            demand = from_json(Demand, raw["demand"])
            right = raw == _sealed(key, demand)
        except (ValueError, KeyError, TypeError, RecursionError):  # pydantic's errors are ValueErrors
            right = False
        if not right:
            self.say(f"note: the demand kept at {store.uri(key)} is damaged and is made again")
            return None
        return demand

    def _stamp(self, workload: Workload) -> list[Any] | None:
        """What tells whether the data has changed, None where only reading it does."""
        source = workload.data.source
        if not isinstance(source, UriSource):
            return ["built in"]
        if not is_local(source.uri):
            return None
        roots = roots_of(data_roots=self.settings.data_roots, store_url=self.settings.store)
        try:
            return list(stamp_on_disk(source.uri, roots=roots))
        except UserError as error:
            raise JobRefusedError(str(error)) from error

    def _prepare(self, store: ObjectStore, workload: Workload) -> dict[str, Any]:
        self.say("preparing the data ...")
        return self._run(store, "prepare", workload, {})

    def _profile(self, store: ObjectStore, workload: Workload, prepared: dict[str, Any]) -> Demand:
        self.say("finding out what the training needs ...")
        dataset = PrepareResult.model_validate(prepared).dataset
        result = self._run(store, "profile", workload, {"dataset": dataset})
        uri = result.get("demand_uri")
        whole = None if uri is None else store.get_json(store.key_of(uri))
        return from_json(Demand, result["demand"] if whole is None else whole)

    def _run(self, store: ObjectStore, kind: str, workload: Workload, inputs: dict[str, Any]) -> dict[str, Any]:
        """One job in a process of its own, with the request and the result in the store as in a run."""
        prefix = _jobs_prefix(workload)
        base = f"{prefix}/jobs/{job_name(kind=kind, attempt=1)}"
        request = JobRequest(
            kind=kind,
            workload=workload,
            run_id="plan",
            run_prefix=prefix,
            base=base,
            attempt=1,
            code_version=code_version(),
            **inputs,
        )
        store.put_json(f"{base}/request.json", request.model_dump(mode="json"))
        with tempfile.TemporaryDirectory(prefix="plimsoll-plan-") as folder:
            done = subprocess.run(
                [sys.executable, "-m", "include.jobs", kind, store.uri(f"{base}/request.json")],
                cwd=REPO,
                env=self._environment(Path(folder)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=_JOB_TIMEOUT_S,
            )
        if done.returncode == ExitCode.DONE:
            return dict(store.get_json(f"{base}/result.json"))
        outcome = store.get_json(f"{base}/outcome.json") or {}
        if done.returncode == ExitCode.BAD_INPUT:
            raise JobRefusedError(str(outcome.get("error") or _end_of(done.stdout)))
        raise StackError(f"the job {kind} failed with exit code {done.returncode}:\n{_end_of(done.stdout)}")

    def _environment(self, job_dir: Path) -> dict[str, str]:
        threads = str(self.settings.torch_threads)
        return {
            **os.environ,
            **self.settings.to_environment(),
            "PLIMSOLL_JOB_DIR": str(job_dir),
            "PYTHONPATH": str(REPO),
            "OMP_NUM_THREADS": threads,
        }


def _sealed(key: str, demand: Demand) -> dict[str, Any]:
    """What is kept: the demand with the digest of where it belongs and what it says."""
    document = to_json(demand)
    return {"demand": document, "seal": content_digest([key, document])}


def _jobs_prefix(workload: Workload) -> str:
    """Where the jobs of this process's plan read and write."""
    return f"plans/{workload.name}/{digest(os.getpid(), workload.model_dump_json())}"


def _end_of(log: str) -> str:
    return "\n".join(log.splitlines()[-_LAST_LINES:])
