"""Real health: four Airflow components with a heartbeat of this start, MLflow, the model server, and who answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime

from stack.airflow_api import request
from stack.errors import StackError
from stack.installation import Installation
from stack.ports import Ports, strangers
from stack.programs import AIRFLOW_COMPONENTS, EC2_DOUBLE, SERVERS

_HEARTBEATS = {
    "scheduler": "latest_scheduler_heartbeat",
    "triggerer": "latest_triggerer_heartbeat",
    "dag_processor": "latest_dag_processor_heartbeat",
}
_PROBES = {"mlflow": ("mlflow", "/health"), "model-server": ("serving", "/ping")}
_PROBE_TIMEOUT_S = 3.0
_PAUSE_S = 0.5
_TAIL_LINES = 8
_OK = 200


def unhealthy(ports: Ports, *, since: datetime | None) -> dict[str, str]:
    """What is not healthy now, with the reason, by component.

    Args:
        ports: Where the servers listen.
        since: Heartbeats before this moment are those of an earlier start; None takes any.
    """
    missing = _airflow(ports, since)
    probes = dict(_PROBES)
    if "api-server" not in missing:
        # The interface that tasks report to is built on its first request, which takes seconds: no task should wait.
        probes["execution-api"] = ("airflow", "/execution/health")
    if ports.ec2 is not None:
        probes[EC2_DOUBLE] = ("ec2", "/_double/health")
    for name, (server, path) in probes.items():
        status, text = request("GET", ports.url(server) + path, timeout_s=_PROBE_TIMEOUT_S)
        if status != _OK:
            missing[name] = f"{path} answers {status or text}"
    return missing


def _airflow(ports: Ports, since: datetime | None) -> dict[str, str]:
    status, text = request("GET", f"{ports.url('airflow')}/api/v2/monitor/health", timeout_s=_PROBE_TIMEOUT_S)
    try:
        answer = json.loads(text) if status == _OK else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return {"api-server": f"health answers {status or text}"}
    missing = {}
    for name in ("metadatabase", *_HEARTBEATS):
        part = answer.get(name) or {}
        if part.get("status") != "healthy":
            missing[name.replace("_", "-")] = str(part.get("status"))
        elif since is not None and name in _HEARTBEATS and not _fresh(part.get(_HEARTBEATS[name]), since):
            missing[name.replace("_", "-")] = "no heartbeat since this start"
    return missing


def _fresh(beat: str | None, since: datetime) -> bool:
    return beat is not None and datetime.fromisoformat(beat) >= since


def wait_healthy(
    *,
    installation: Installation,
    ports: Ports,
    since: datetime,
    supervisor_pid: int,
    failed_programs: Callable[[], list[str]],
    timeout_s: float,
    say: Callable[[str], None],
) -> None:
    """Wait until everything is healthy.

    Raises:
        StackError: A program gave up, a port was taken by another program, or it took too long.
    """
    deadline = time.monotonic() + timeout_s
    waiting: set[str] | None = None
    while missing := unhealthy(ports, since=since):
        _refuse_strangers(ports, supervisor_pid)
        if failed := failed_programs():
            raise StackError(f"{failed[0]} does not stay up.\n{log_tail(installation, failed[0])}")
        if time.monotonic() > deadline:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
            raise StackError(f"Not healthy after {timeout_s:.0f} s: {reasons}. Logs are in {installation.logs}.")
        if waiting is not None and (done := waiting - set(missing)):
            say(f"{', '.join(sorted(done))} healthy")
        waiting = set(missing) if waiting is None else waiting & set(missing) or set(missing)
        time.sleep(_PAUSE_S)
    _refuse_strangers(ports, supervisor_pid)


def _refuse_strangers(ports: Ports, supervisor_pid: int) -> None:
    if found := strangers(ports, supervisor_pid):
        raise StackError(f"Another program has taken the port of {', '.join(found)} in the meantime: start again.")


def log_tail(installation: Installation, program: str) -> str:
    """The last lines of a program's log, for the message about it."""
    path = installation.logs / f"{program}.log"
    known = program in (*AIRFLOW_COMPONENTS, *SERVERS, EC2_DOUBLE)
    if not known or not path.exists():
        return f"No log in {path}."
    lines = path.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join([f"End of {path}:", *(f"  {line}" for line in lines)])
