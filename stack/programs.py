"""The programs of the stack and the configuration of the supervisor that keeps them running."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from stack.installation import Installation
from stack.ports import LOOPBACK, Ports

# One group: the supervisor ends the members of a group side by side, but one group after the other.
GROUP = "plimsoll"
AIRFLOW_COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SERVERS = ("mlflow", "model-server")
EC2_DOUBLE = "ec2-double"
# Seconds between the request to end and the kill. The scheduler waits for running tasks. The dag-processor and the
# triggerer hold nothing that is not in the database or the store, and now and then they do not hear the request.
_STOP_WAIT_S = {"scheduler": 20, "dag-processor": 4, "triggerer": 8, EC2_DOUBLE: 15}
_USUAL_STOP_WAIT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One supervised program.

    Attributes:
        name: Name in the supervisor and of the log file.
        command: Command line.
        at_once: Started with the supervisor; the others wait for their database.
    """

    name: str
    command: tuple[str, ...]
    at_once: bool


def programs(installation: Installation, ports: Ports) -> tuple[Program, ...]:
    """All programs; each listens on the loopback interface or on nothing."""
    airflow = str(installation.bin / "airflow")
    # The log servers of scheduler and triggerer listen on all interfaces; logs lie on this machine's disk anyway.
    options = {"scheduler": ("--skip-serve-logs",), "triggerer": ("--skip-serve-logs",)}
    components = tuple(
        Program(name=name, command=(airflow, name, *options.get(name, ())), at_once=False)
        for name in AIRFLOW_COMPONENTS
    )
    mlflow = (
        *(str(installation.bin / "mlflow"), "server", "--host", LOOPBACK, "--port", str(ports.mlflow)),
        *("--workers", "1", "--backend-store-uri", f"sqlite:///{installation.mlflow}/mlflow.db"),
        *("--serve-artifacts", "--artifacts-destination", f"file://{installation.mlflow}/artifacts"),
    )
    serving = (
        *(str(installation.bin / "python"), "-m", "include.serving.server"),
        *("--host", LOOPBACK, "--port", str(ports.serving)),
    )
    return (
        *components,
        Program(name="mlflow", command=mlflow, at_once=True),
        Program(name="model-server", command=serving, at_once=True),
        *_double(installation, ports),
    )


def _double(installation: Installation, ports: Ports) -> tuple[Program, ...]:
    if ports.ec2 is None:
        return ()
    command = (str(installation.bin / "python"), "-m", "stack.ec2_double", "--port", str(ports.ec2))
    return (Program(name=EC2_DOUBLE, command=command, at_once=True),)


def _escaped(text: object) -> str:
    """Supervisor expands ``%(name)s`` in every value."""
    return str(text).replace("%", "%%")


def supervisor_config(installation: Installation, ports: Ports) -> str:
    """Text of ``supervisord.conf``. It holds no secret: programs inherit the supervisor's environment."""
    socket = installation.supervisor_socket
    listed = programs(installation, ports)
    lines = [
        "; Generated at each start; edits are lost.",
        "[supervisord]",
        "nodaemon=false",
        f"logfile={_escaped(installation.logs / 'supervisord.log')}",
        f"pidfile={_escaped(installation.run / 'supervisord.pid')}",
        f"directory={_escaped(installation.run)}",
        "umask=077",
        "[unix_http_server]",
        f"file={_escaped(socket)}",
        "chmod=0600",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
        "[supervisorctl]",
        f"serverurl=unix://{_escaped(socket)}",
        f"[group:{GROUP}]",
        f"programs={','.join(program.name for program in listed)}",
    ]
    for program in listed:
        lines += _program_section(installation, program)
    return "\n".join([*lines, ""])


def _program_section(installation: Installation, program: Program) -> list[str]:
    return [
        f"[program:{program.name}]",
        f"command={_escaped(shlex.join(program.command))}",
        f"autostart={str(program.at_once).lower()}",
        # Not "unexpected": the triggerer leaves with status 0 when its runner dies.
        "autorestart=true",
        "startsecs=1",
        "startretries=5",
        "stopsignal=TERM",
        f"stopwaitsecs={_STOP_WAIT_S.get(program.name, _USUAL_STOP_WAIT_S)}",
        "killasgroup=true",
        "redirect_stderr=true",
        f"stdout_logfile={_escaped(installation.logs / f'{program.name}.log')}",
        "stdout_logfile_maxbytes=20MB",
        "stdout_logfile_backups=2",
    ]
