"""Process identity and lifelines on Linux: who is alive, and who dies with whom."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

_PR_SET_PDEATHSIG = 1
# Field 22 of /proc/<pid>/stat, counted from the state letter that follows the closing parenthesis of the name.
_STARTTIME_AFTER_NAME = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process that can be told from a later one with the same pid.

    Attributes:
        pid: Process id.
        start_ticks: Start time in clock ticks since boot, from /proc (psutil's seconds are rounded by boot time).
        boot_id: Identity of the boot; ticks of another boot mean nothing.
    """

    pid: int
    start_ticks: int
    boot_id: str

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``owner.json``."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ProcessIdentity:
        """Read what `to_json` wrote; further keys are ignored."""
        return cls(pid=int(value["pid"]), start_ticks=int(value["start_ticks"]), boot_id=str(value["boot_id"]))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(")")[2].split()[_STARTTIME_AFTER_NAME])


def identify(pid: int) -> ProcessIdentity | None:
    """Identity of a running process, or None where there is none."""
    ticks = _start_ticks(pid)
    return None if ticks is None else ProcessIdentity(pid=pid, start_ticks=ticks, boot_id=_boot_id())


def own_identity() -> ProcessIdentity:
    """Identity of this process."""
    identity = identify(os.getpid())
    assert identity is not None
    return identity


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether exactly this process still runs. A zombie has ended; its pid only waits to be collected."""
    if identity.boot_id != _boot_id() or _start_ticks(identity.pid) != identity.start_ticks:
        return False
    try:
        return bool(psutil.Process(identity.pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_tree(identity: ProcessIdentity) -> int:
    """SIGKILL the process and all its descendants, children first.

    Returns:
        How many processes were signalled.
    """
    if not is_alive(identity):
        return 0
    try:
        root = psutil.Process(identity.pid)
        family = [*root.children(recursive=True)[::-1], root]
    except psutil.NoSuchProcess:
        return 0
    count = 0
    for process in family:
        try:
            process.send_signal(signal.SIGKILL)
            count += 1
        except psutil.NoSuchProcess:
            continue
    return count


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that forked it ends.

    Call it first thing in the child (as ``preexec_fn`` or at the top of a program). torchrun puts its workers into
    sessions of their own, so killing a process group is not enough to end a job's tree.
    """
    parent = os.getppid()
    ctypes.CDLL("libc.so.6", use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)
