"""What a start leaves behind for the stop: which processes are ours, by pid and start time."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from pydantic import AwareDatetime

from include.config.schedule import Edge
from include.core.process import ProcessIdentity, identify, is_alive
from stack.installation import Installation
from stack.ports import Ports


class Process(Edge):
    """One recorded process."""

    pid: int
    start_ticks: int
    boot_id: str

    @property
    def identity(self) -> ProcessIdentity:
        """For comparison with what runs now."""
        return ProcessIdentity(pid=self.pid, start_ticks=self.start_ticks, boot_id=self.boot_id)


class StackRecord(Edge):
    """``var/run/stack.json``: the running stack.

    Attributes:
        supervisor: The process supervisor.
        processes: Everything that was seen below it.
        ports: Ports by server.
        started_at: When the start began.
        healthy: Whether the start was finished.
        stopping: Whether a stop was begun.
    """

    version: int = 1
    supervisor: Process
    processes: tuple[Process, ...] = ()
    ports: dict[str, int]
    started_at: AwareDatetime
    healthy: bool = False
    stopping: bool = False

    @property
    def chosen_ports(self) -> Ports:
        """Ports as the rest of the stack takes them."""
        return Ports(**self.ports)

    @property
    def runs(self) -> bool:
        """Whether the supervisor is alive."""
        return is_alive(self.supervisor.identity)

    def with_family(self, folder: Path) -> StackRecord:
        """The record with everything of this stack that runs now; what was seen before and still lives is kept."""
        found = (*self.processes, *members(self.supervisor, folder))
        seen = {(p.pid, p.start_ticks): p for p in found if is_alive(p.identity)}
        return self.model_copy(update={"processes": tuple(seen.values())})


def members(supervisor: Process, folder: Path) -> list[Process]:
    """All processes of the supervisor's session, orphans too.

    The supervisor leads an OS session that its programs never leave (agents do: they have their own). While it lives,
    the session number is its own. Once it has gone, the number might be used again, so a member must also be younger
    than the supervisor and still work in the stack's own folder.

    Args:
        supervisor: As it was recorded.
        folder: Working folder of the supervised programs.
    """
    leads = is_alive(supervisor.identity)
    found = []
    for process in psutil.process_iter():
        identity = identify(process.pid)
        if identity is None or identity.pid == supervisor.pid or identity.boot_id != supervisor.boot_id:
            continue
        if _session(process.pid) == supervisor.pid and (leads or _is_ours(process, identity, supervisor, folder)):
            found.append(Process(**identity.to_json()))
    return found


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _is_ours(process: psutil.Process, identity: ProcessIdentity, supervisor: Process, folder: Path) -> bool:
    try:
        return identity.start_ticks >= supervisor.start_ticks and Path(process.cwd()) == folder
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _path(installation: Installation) -> Path:
    return installation.run / "stack.json"


def write(installation: Installation, record: StackRecord) -> None:
    """Replace the record at once, so that no reader sees half of it."""
    path = _path(installation)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(record.model_dump_json(indent=2))
    part.replace(path)


def read(installation: Installation) -> StackRecord | None:
    """The record of the last start, or None where there was none or it cannot be read."""
    try:
        raw: Any = json.loads(_path(installation).read_text())
        return StackRecord.model_validate(raw)
    except (OSError, ValueError):
        return None


def goes_on(installation: Installation, started_at: datetime) -> bool:
    """Whether the stack that was started then still runs, and nobody has begun to stop it."""
    found = read(installation)
    return found is not None and found.started_at == started_at and not found.stopping and found.runs


def remove(installation: Installation) -> None:
    """Forget the stack after it was stopped."""
    _path(installation).unlink(missing_ok=True)


def new(*, supervisor_pid: int, ports: dict[str, int], started_at: datetime) -> StackRecord:
    """Record of a stack whose supervisor has just come up."""
    found = identify(supervisor_pid)
    if found is None:
        raise ProcessLookupError(f"supervisor {supervisor_pid} is gone")
    return StackRecord(supervisor=Process(**found.to_json()), ports=ports, started_at=started_at)
