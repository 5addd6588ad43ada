"""A whole installation of its own for tests: the real Airflow stack in a temporary folder, with workloads of the test.

It is started and stopped by the functions behind ``make run`` and ``make stop``, on whatever ports are free.
"""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from include.config.settings import Settings
from include.core.process import ProcessIdentity, identify, is_alive
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger
from stack import child_environment, credentials, dag_ready, health, pools, record, supervisor
from stack.airflow_api import AirflowApi
from stack.installation import REPO, Installation, StackSettings
from stack.last_run import LastRun
from stack.programs import GROUP
from stack.run import Command, RunOrder
from stack.start import Stack, start
from stack.stop import stop
from tests.support.small_workloads import write_workloads
from tests.support.waiting import eventually

DRILL_DAGS = REPO / "tests" / "drills" / "dags"
_BUNDLE = "airflow.dag_processing.bundles.local.LocalDagBundle"
_DAG_TIMEOUT_S = 90.0
# Shorter than an installation's own, so that a drill does not wait longer than it has to.
_LOST_AFTER_S = "10"
# What belongs to a run. A task of a guard DAG may read the registry in a process of its own meanwhile; it is not work.
_WORK = ("include.compute.agent", "include.jobs", "include.training", "torch.distributed.run")


@dataclass(frozen=True, slots=True, kw_only=True)
class RealStack:
    """A running stack and what a test needs of it.

    Attributes:
        stack: As the start left it.
        settings: Settings that start and stop it.
        environment: Variables that make it this installation.
        folder: Where everything is.
    """

    stack: Stack
    settings: StackSettings
    environment: Mapping[str, str]
    folder: Path
    _clients: dict[str, AirflowApi] = field(default_factory=dict, repr=False)

    @property
    def installation(self) -> Installation:
        return self.stack.installation

    @property
    def engine_settings(self) -> Settings:
        return self.stack.settings

    @property
    def url(self) -> str:
        return self.stack.ports.url("airflow")

    def api(self, user: str = "admin") -> AirflowApi:
        """Airflow as one user sees it."""
        return self._clients.setdefault(user, AirflowApi(url=self.url, user=user, password=self.password(user)))

    def password(self, user: str) -> str:
        return credentials.load_or_create(self.installation).password(user)

    def store(self) -> ObjectStore:
        return ObjectStore(self.engine_settings.store)

    def ledger(self) -> Ledger:
        return Ledger(self.engine_settings.ledger)

    def ready(self, *dag_ids: str) -> AirflowApi:
        """Wait until Airflow has the DAGs, and let the scheduler run them."""
        api = self.api()
        for dag_id in dag_ids:
            dag_ready.wait_for_dag(api, dag_id, since=self.stack.started_at, timeout_s=_DAG_TIMEOUT_S)
            api.unpause(dag_id)
        return api

    def pause(self, dag_id: str) -> None:
        self.api().call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": True})

    def make_run(self, workload: str, *, drill: bool) -> tuple[LastRun, str]:
        """``make run`` on this stack: the summary and what was printed."""
        printed = io.StringIO()
        with variables(self.environment):
            order = RunOrder(workload=workload, once=False, drill=drill)
            found = Command(order, self.settings, Console(file=printed, width=130)).run()
        return found, printed.getvalue()

    def component(self, name: str) -> psutil.Process:
        """The process of one supervised program."""
        answer = supervisor.control(self.installation, "pid", f"{GROUP}:{name}")
        return psutil.Process(int(answer.strip()))

    def wait_healthy(self, within_s: float = 90.0) -> None:
        eventually(lambda: not health.unhealthy(self.stack.ports, since=None), within_s=within_s, what="healthy again")

    def job_processes(self) -> list[psutil.Process]:
        """Agents of runs, jobs and workers of this installation; not the control agent and its jobs."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
                if process.status() == psutil.STATUS_ZOMBIE or not any(name in words for name in _WORK):
                    continue
                if process.environ().get("PLIMSOLL_STORE") == self.engine_settings.store:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return [process for process in found if not _serves_all(process)]


def _serves_all(process: psutil.Process) -> bool:
    """The control agent and whatever runs below it."""
    try:
        family = [process, *process.parents()]
        lines = [" ".join(member.cmdline()) for member in family]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return True
    return any("include.compute.agent control-" in line for line in lines)


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process for a while; other ``PLIMSOLL_*`` ones are hidden meanwhile."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("PLIMSOLL_")]:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        # One by one: another thread of the tests may start a program meanwhile, and needs its PATH.
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def real_stack(folder: Path, *, drill_dags: bool = True, ec2_double: bool = False) -> Iterator[RealStack]:
    """Start a stack in a folder, stop it at the end, and see that nothing of it is left.

    Args:
        folder: Where everything goes.
        drill_dags: Whether Airflow reads the drills' DAGs too.
        ec2_double: Whether trainings run on instances of the EC2 double.
    """
    workloads, data = folder / "workloads", folder / "data"
    write_workloads(workloads=workloads, data=data)
    environment = {
        "PLIMSOLL_VAR": str(folder / "var"),
        "PLIMSOLL_WORKLOADS": str(workloads),
        "PLIMSOLL_DATA_ROOTS": str(data),
        "PLIMSOLL_LOST_AFTER_S": _LOST_AFTER_S,
        "PLIMSOLL_EC2_DOUBLE": "1" if ec2_double else "0",
    }
    said: list[str] = []
    with variables(environment), _with_drill_dags(wanted=drill_dags):
        settings = StackSettings.from_environment()
        try:
            stack = start(settings, said.append)
            found = RealStack(stack=stack, settings=settings, environment=environment, folder=folder)
            pools.ensure(found.api())
            members = _Members(found.installation)
        except BaseException:
            stop(settings, said.append)
            raise
    try:
        yield found
    finally:
        members.look()
        with variables(environment):
            stop(settings, said.append)
    assert not (left := [str(process) for process in members.seen if is_alive(process)]), f"still alive: {left}"
    assert not found.job_processes()


class _Members:
    """Every process that was seen in the stack's session."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.seen: set[ProcessIdentity] = set()
        self.look()

    def look(self) -> None:
        state = record.read(self._installation)
        if state is not None:
            whole = state.with_family(self._installation.run)
            self.seen |= {process.identity for process in (whole.supervisor, *whole.processes)}


@contextmanager
def _with_drill_dags(*, wanted: bool) -> Iterator[None]:
    """Let Airflow read the tests' own DAGs beside the project's: a second bundle, for this start alone."""
    usual = child_environment.airflow_variables

    def with_bundle(*arguments: Any) -> dict[str, str]:
        bundles = (
            f'[{{"name": "dags-folder", "classpath": "{_BUNDLE}", "kwargs": {{}}}}, '
            f'{{"name": "drills", "classpath": "{_BUNDLE}", "kwargs": {{"path": "{DRILL_DAGS}"}}}}]'
        )
        return {**usual(*arguments), "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": bundles}

    child_environment.airflow_variables = with_bundle if wanted else usual
    try:
        yield
    finally:
        child_environment.airflow_variables = usual


def kill(process: ProcessIdentity | psutil.Process) -> None:
    """SIGKILL one process, if it still is the one that was meant."""
    meant = process if isinstance(process, ProcessIdentity) else identify(process.pid)
    if meant is not None and is_alive(meant):
        os.kill(meant.pid, signal.SIGKILL)
