"""Environment of the stack's programs: all configuration of Airflow, MLflow and Plimsoll, by variables alone."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from include.config.settings import Settings
from stack import ec2_local
from stack.credentials import USERS, Credentials
from stack.installation import Installation
from stack.ports import LOOPBACK, Ports

# A variable of another Airflow, virtual environment or Python on this machine must not reach ours.
_DROPPED_PREFIXES = ("AIRFLOW_", "PLIMSOLL_", "MLFLOW_", "SUPERVISOR_")
_DROPPED = {
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "MAKEFLAGS",
    "MAKELEVEL",
}
# One task at a time per core leaves room for the jobs; SQLite was shown to hold with four.
_PARALLELISM = 4
_TASK_TOKEN_S = 7200


def settings_of(installation: Installation, ports: Ports, environ: dict[str, str] | None = None) -> Settings:
    """Settings of the engine: the person's own, else those of this installation."""
    source = dict(os.environ) if environ is None else dict(environ)
    source.setdefault("PLIMSOLL_STORE", f"file://{installation.var}/store")
    source.setdefault("PLIMSOLL_LEDGER", f"sqlite:///{installation.var}/ledger.db")
    source.setdefault("PLIMSOLL_WORK_ROOT", str(installation.var / "work"))
    if ports.ec2 is not None:
        source |= ec2_local.settings_variables()
    source["PLIMSOLL_MLFLOW_URI"] = ports.url("mlflow")
    source["PLIMSOLL_SERVING_URL"] = ports.url("serving")
    source["PLIMSOLL_AIRFLOW_URL"] = ports.url("airflow")
    return Settings.from_environment(source)


def airflow_variables(installation: Installation, ports: Ports, credentials: Credentials) -> dict[str, str]:
    """Configuration of Airflow."""
    url = ports.url("airflow")
    values: dict[str, dict[str, object]] = {
        "core": {
            "dags_folder": installation.repo / "dags",
            "plugins_folder": installation.repo / "plugins",
            "load_examples": False,
            "executor": "stack.local_executor.PatientLocalExecutor",
            "parallelism": _PARALLELISM,
            "execution_api_server_url": f"{url}/execution/",
            "fernet_key": credentials.fernet_key,
            "simple_auth_manager_users": ",".join(f"{user}:{role}" for user, role in USERS.items()),
            "simple_auth_manager_passwords_file": credentials.passwords_file,
            # Shows a workload file that was edited while the stack runs; the default is 30 seconds later.
            "min_serialized_dag_update_interval": 1,
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{installation.airflow_home}/airflow.db"},
        "api": {
            "host": LOOPBACK,
            "port": ports.airflow,
            "base_url": url,
            "workers": 1,
            "secret_key": credentials.api_secret,
        },
        "api_auth": {"jwt_secret": credentials.jwt_secret},
        # Tasks renew their token with each heartbeat; a machine that slept for a while must not lose them.
        "execution_api": {"jwt_expiration_time": _TASK_TOKEN_S},
        # A task whose pipes close before it exits is collected only after this wait; the default is five seconds.
        # A busy machine answers late; a task that gives up after five seconds, the default, has to be run again.
        "workers": {"min_heartbeat_interval": 1, "execution_api_timeout": 30},
        # The default of one second is most of the gap between two short tasks.
        "scheduler": {"scheduler_idle_sleep_time": 0.25},
        "dag_processor": {"refresh_interval": 5, "bundle_refresh_check_interval": 5, "min_file_process_interval": 30},
        "usage_data_collection": {"enabled": False},
        "logging": {"base_log_folder": installation.airflow_home / "logs"},
    }
    flat = {f"AIRFLOW__{s.upper()}__{k.upper()}": str(v) for s, options in values.items() for k, v in options.items()}
    return {"AIRFLOW_HOME": str(installation.airflow_home), **flat}


def quiet_variables() -> dict[str, str]:
    """No program of the stack calls home."""
    return {
        "DO_NOT_TRACK": "true",
        "SCARF_ANALYTICS": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GX_ANALYTICS_ENABLED": "false",
        # MLflow's background job queue is for features that are not used here; it costs four processes.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def build(
    installation: Installation, ports: Ports, credentials: Credentials, environ: dict[str, str] | None = None
) -> dict[str, str]:
    """The whole environment of the stack's programs."""
    source = dict(os.environ) if environ is None else dict(environ)
    kept = {k: v for k, v in source.items() if k not in _DROPPED and not k.startswith(_DROPPED_PREFIXES)}
    loopback = f"{LOOPBACK},localhost"
    proxied = {name: f"{kept[name]},{loopback}" if kept.get(name) else loopback for name in ("NO_PROXY", "no_proxy")}
    return {
        **kept,
        **proxied,
        **quiet_variables(),
        **airflow_variables(installation, ports, credentials),
        **settings_of(installation, ports, source).to_environment(),
        **({} if ports.ec2 is None else ec2_local.client_variables(ports)),
        "PATH": f"{installation.bin}:{kept.get('PATH', os.defpath)}",
        "PYTHONPATH": str(installation.repo),
        "PYTHONUNBUFFERED": "1",
    }


def write_shell_file(environment: dict[str, str], path: Path) -> None:
    """Write what a person's shell needs to use the ``airflow`` command on this installation (mode 600)."""
    wanted = ("AIRFLOW", "PLIMSOLL_", "MLFLOW_", "PYTHONPATH", "PATH", "NO_PROXY")
    lines = [f"export {k}={shlex.quote(v)}" for k, v in sorted(environment.items()) if k.startswith(wanted)]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write("\n".join([*lines, f"export MLFLOW_TRACKING_URI={environment['PLIMSOLL_MLFLOW_URI']}", ""]))
