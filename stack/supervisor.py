"""The process supervisor of one installation: start it, ask it, tell it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from stack.errors import StackError
from stack.installation import Installation

_UP_TIMEOUT_S = 15.0
_PAUSE_S = 0.05
_GIVEN_UP = ("FATAL",)


def start(installation: Installation, environment: Mapping[str, str]) -> int:
    """Start the supervisor as a daemon.

    Returns:
        Its process id.

    Raises:
        StackError: It did not come up.
    """
    pid_file = installation.run / "supervisord.pid"
    pid_file.unlink(missing_ok=True)
    installation.supervisor_socket.unlink(missing_ok=True)
    command = [str(installation.bin / "supervisord"), "-c", str(installation.supervisor_config)]
    answer = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if answer.returncode:
        reason = " ".join((answer.stderr or answer.stdout).split())
        raise StackError(f"The process supervisor did not start: {reason[-500:]}")
    return _read_pid(pid_file)


def _read_pid(pid_file: Path) -> int:
    deadline = time.monotonic() + _UP_TIMEOUT_S
    while time.monotonic() < deadline:
        if pid_file.exists() and (text := pid_file.read_text().strip()):
            return int(text)
        time.sleep(_PAUSE_S)
    raise StackError(f"The process supervisor did not write {pid_file} within {_UP_TIMEOUT_S:.0f} s.")


def control(installation: Installation, *words: str) -> str:
    """One command of ``supervisorctl``; returns what it printed."""
    command = [str(installation.bin / "supervisorctl"), "-c", str(installation.supervisor_config), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def given_up(installation: Installation) -> list[str]:
    """Programs that the supervisor no longer restarts."""
    rows = [line.split() for line in control(installation, "status").splitlines()]
    return [row[0].rpartition(":")[2] for row in rows if len(row) > 1 and row[1] in _GIVEN_UP]
