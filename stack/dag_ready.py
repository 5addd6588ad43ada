"""Waits until Airflow has read the DAG of a workload as it is on disk now, and refuses broken code."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from include.config.loader import WorkloadFolder, load_folder
from include.config.workload import Workload
from stack.airflow_api import AirflowApi
from stack.errors import StackError

_PAUSE_S = 0.25
# This DAG file has one import error for all invalid workload files, so that it hides none of the valid ones.
_WORKLOAD_ERRORS = "workload_errors.py"
_LONGEST_TRACE = 12
_FILES_TIMEOUT_S = 10.0


class UnknownWorkloadError(StackError):
    """There is no workload of that name that can be used."""


def choose_workload(folder: Path, name: str) -> tuple[Workload, list[str]]:
    """The chosen workload, and one warning per invalid file of somebody else.

    Raises:
        UnknownWorkloadError: There is no such workload, or its file has mistakes.
    """
    if not folder.is_dir():
        raise UnknownWorkloadError(f"There is no folder of workloads at {folder} (PLIMSOLL_WORKLOADS).")
    found: WorkloadFolder = load_folder(folder)
    for path, error in found.errors.items():
        if path.stem == name and name not in found.valid:
            raise UnknownWorkloadError(f"The workload cannot run: {error}")
    if name not in found.valid:
        valid = ", ".join(found.valid) or "none"
        raise UnknownWorkloadError(f"There is no workload {name!r} in {folder}. Valid ones: {valid}.")
    return found.valid[name], [f"Ignored: {error}" for error in found.errors.values()]


def newest_change(folders: Iterable[Path]) -> datetime:
    """When the newest DAG or workload file was changed."""
    stamps = [path.stat().st_mtime for folder in folders for path in folder.glob("*") if path.is_file()]
    return datetime.fromtimestamp(max(stamps, default=0.0), tz=UTC)


def wait_for_dag(api: AirflowApi, dag_id: str, *, since: datetime, timeout_s: float) -> dict[str, Any]:
    """Wait until the DAG was parsed after ``since``: an older one may be another than the file's.

    Raises:
        StackError: Broken code, or the DAG did not appear in time.
    """
    deadline = time.monotonic() + timeout_s
    asked = False
    while time.monotonic() < deadline:
        refuse_broken_code(api, since=since)
        dag = api.dag(dag_id)
        if dag is not None and not dag["is_stale"]:
            if _after(dag.get("last_parsed_time"), since):
                return dag
            if not asked and dag.get("file_token"):
                api.reparse(dag["file_token"])
                asked = True
        time.sleep(_PAUSE_S)
    raise StackError(f"Airflow did not show the DAG {dag_id!r} within {timeout_s:.0f} s: see the dag-processor's log.")


def wait_for_files(api: AirflowApi, folder: Path, *, since: datetime, timeout_s: float = _FILES_TIMEOUT_S) -> None:
    """Wait until every DAG file was read after ``since``, or the time is over: a file may hold no DAG on purpose."""
    deadline = time.monotonic() + timeout_s
    files = {path.name for path in folder.glob("*.py")} - {_WORKLOAD_ERRORS}
    while time.monotonic() < deadline:
        dags = api.pages("/api/v2/dags", "dags")
        read = {Path(dag["fileloc"]).name for dag in dags if _after(dag["last_parsed_time"], since)}
        errors = api.pages("/api/v2/importErrors", "import_errors")
        read |= {Path(error["filename"]).name for error in errors if _after(error["timestamp"], since)}
        if files <= read:
            return
        time.sleep(_PAUSE_S)


def _after(moment: str | None, since: datetime) -> bool:
    return moment is not None and datetime.fromisoformat(moment) >= since


def refuse_broken_code(api: AirflowApi, *, since: datetime | None = None) -> None:
    """Fail on every import error that is not about somebody's workload file.

    Args:
        api: Airflow.
        since: Errors before this moment are about files that have not been read again yet; None takes all.

    Raises:
        StackError: A DAG file or a plugin cannot be imported.
    """
    broken = [
        error
        for error in api.pages("/api/v2/importErrors", "import_errors")
        if Path(error["filename"]).name != _WORKLOAD_ERRORS and (since is None or _after(error["timestamp"], since))
    ]
    if broken:
        trace = str(broken[0].get("stack_trace") or "").strip().splitlines()[-_LONGEST_TRACE:]
        raise StackError("\n".join([f"{broken[0]['filename']} cannot be imported by Airflow:", *trace]))
    plugins = api.call("GET", "/api/v2/plugins/importErrors").get("import_errors", [])
    if plugins:
        reason = str(plugins[0].get("error", "")).strip().splitlines()[-1:]
        raise StackError(f"Plugin {plugins[0].get('source')} cannot be imported by Airflow: {' '.join(reason)}")
