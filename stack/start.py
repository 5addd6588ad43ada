"""Start the stack: folders, secrets, ports, databases, programs, pools; done only when everything is healthy."""

from __future__ import annotations

import fcntl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from include.config.settings import Settings
from stack import child_environment, credentials, ec2_local, health, ports, programs, record, supervisor
from stack.airflow_api import AirflowApi
from stack.aws_clients import StackClients
from stack.errors import StackError
from stack.installation import Installation, StackSettings, unusable
from stack.ports import Ports
from stack.record import StackRecord

Say = Callable[[str], None]
_AIRFLOW_SCHEMA = "schema-of"  # stamp: which Airflow release the database was last migrated for


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A running stack.

    Attributes:
        installation: Its folders.
        ports: Its ports.
        settings: Settings of the engine, as the programs have them.
        environment: Environment of the programs.
        started_at: When its start began.
        reused: True when it was already running.
    """

    installation: Installation
    ports: Ports
    settings: Settings
    environment: Mapping[str, str]
    started_at: datetime
    reused: bool

    def api(self) -> AirflowApi:
        """Airflow as the administrator."""
        secrets = credentials.load_or_create(self.installation)
        return AirflowApi(url=self.ports.url("airflow"), user="admin", password=secrets.password("admin"))


def start(settings: StackSettings, say: Say) -> Stack:
    """Start the stack of an installation, or find it running.

    Raises:
        StackError: It cannot be started; the message says why. What was started is left for ``make stop``.
    """
    installation = Installation.of(settings)
    installation.create()
    with only_one_start(installation):
        found = record.read(installation)
        if found is not None and found.runs:
            return _reuse(installation, found, settings, say)
        if found is not None and found.with_family(installation.run).processes:
            raise StackError("Processes of an earlier stack are left over: `make stop` ends them.")
        return _start_new(installation, settings, say)


@contextmanager
def only_one_start(installation: Installation) -> Iterator[None]:
    """Hold the installation's start lock.

    Raises:
        StackError: Another start or stop holds it, or the folder cannot be written to.
    """
    try:
        opened = (installation.run / "start.lock").open("w")
    except OSError as error:
        raise unusable(installation.var, error) from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError(
                f"Another make run or make stop is at work in {installation.var}: wait for it, then try again."
            ) from error
        yield


def _reuse(installation: Installation, found: StackRecord, settings: StackSettings, say: Say) -> Stack:
    chosen = found.chosen_ports
    if settings.ec2_double != (chosen.ec2 is not None):
        has = "rents from the EC2 double" if chosen.ec2 else "works on this machine"
        raise StackError(f"A stack that {has} runs in {installation.var}: `make stop`, then again with this ENGINE.")
    missing = health.unhealthy(chosen, since=None) if found.healthy else {"start": "was never finished"}
    if found.stopping:
        missing["stop"] = "was begun and not finished"
    if missing:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise StackError(f"A stack runs in {installation.var} but is not healthy ({reasons}): `make stop`, then again.")
    say(f"The stack is already running since {found.started_at:%Y-%m-%d %H:%M:%S} UTC: using it.")
    return _stack(installation, chosen, found.started_at, reused=True)


def _stack(installation: Installation, chosen: Ports, started_at: datetime, *, reused: bool) -> Stack:
    secrets = credentials.load_or_create(installation)
    return Stack(
        installation=installation,
        ports=chosen,
        settings=child_environment.settings_of(installation, chosen),
        environment=child_environment.build(installation, chosen, secrets),
        started_at=started_at,
        reused=reused,
    )


def _start_new(installation: Installation, settings: StackSettings, say: Say) -> Stack:
    reservations = ports.Reservations()
    try:
        chosen = ports.choose(settings, say, reservations.take)
        return _bring_up(installation, settings, chosen, say)
    finally:
        reservations.release()


def _bring_up(installation: Installation, settings: StackSettings, chosen: Ports, say: Say) -> Stack:
    began, started_at = time.monotonic(), datetime.now(UTC)
    stack = _stack(installation, chosen, started_at, reused=False)
    if chosen.ec2 is not None:
        ec2_local.refuse_buckets(stack.settings)
    _write_configuration(stack)
    pid = supervisor.start(installation, stack.environment)
    state = record.new(supervisor_pid=pid, ports=chosen.by_server, started_at=started_at)
    record.write(installation, state)
    say("MLflow and the model server are starting; preparing the databases")
    _migrate(stack, say)
    say("Airflow's components are starting")
    supervisor.control(installation, "start", *(f"{programs.GROUP}:{name}" for name in programs.AIRFLOW_COMPONENTS))
    record.write(installation, state.with_family(installation.run))
    health.wait_healthy(
        installation=installation,
        ports=chosen,
        since=started_at,
        supervisor_pid=pid,
        failed_programs=lambda: supervisor.given_up(installation),
        timeout_s=settings.start_timeout_s,
        say=say,
    )
    if chosen.ec2 is not None:
        ec2_local.refresh_prices(stack.settings, StackClients(ec2_local.REGION, chosen), say)
    record.write(installation, state.with_family(installation.run).model_copy(update={"healthy": True}))
    say(f"Everything is healthy after {time.monotonic() - began:.1f} s")
    return stack


def _write_configuration(stack: Stack) -> None:
    installation = stack.installation
    installation.supervisor_config.write_text(programs.supervisor_config(installation, stack.ports))
    child_environment.write_shell_file(dict(stack.environment), installation.run / "environment.sh")


def _migrate(stack: Stack, say: Say) -> None:
    """Bring both databases to the current schema, side by side.

    Raises:
        StackError: A migration failed.
    """
    binaries = stack.installation.bin
    commands = {"ledger": [str(binaries / "python"), "-m", "include.ledger.migrate"]}
    stamp = stack.installation.airflow_home / _AIRFLOW_SCHEMA
    release = _airflow_release()
    if not (stamp.exists() and stamp.read_text() == release and (stamp.parent / "airflow.db").exists()):
        commands["Airflow's database"] = [str(binaries / "airflow"), "db", "migrate"]
    with ThreadPoolExecutor(len(commands)) as pool:
        for name, seconds in pool.map(lambda item: _run_migration(stack, *item), commands.items()):
            say(f"{name} is ready ({seconds:.1f} s)")
    stamp.write_text(release)


def _run_migration(stack: Stack, name: str, command: list[str]) -> tuple[str, float]:
    began = time.monotonic()
    answer = subprocess.run(
        command, env=dict(stack.environment), cwd=stack.installation.run, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        lines = [line for line in (answer.stderr or answer.stdout).splitlines() if line.strip()]
        raise StackError(f"Preparing the {name} failed: {' | '.join(lines[-3:])}")
    return name, time.monotonic() - began


def _airflow_release() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - only a start needs it

    return version("apache-airflow-core")
