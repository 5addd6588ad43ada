"""CPU and memory of a living process tree, from /proc. Reading it costs far less than scanning all processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# utime, stime, cutime, cstime: fields 14 to 17 of /proc/<pid>/stat, counted from the state after the name.
_TIMES_AFTER_NAME = slice(11, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    """What a process tree has used.

    Attributes:
        cpu_s: CPU seconds of the living processes and of all descendants they have waited for.
        max_rss_bytes: Peak resident memory of the largest living process.
    """

    cpu_s: float = 0.0
    max_rss_bytes: int = 0

    def at_least(self, *, cpu_s: float, max_rss_bytes: int) -> TreeUsage:
        """The larger of two observations of the same tree, figure by figure."""
        return TreeUsage(cpu_s=max(self.cpu_s, cpu_s), max_rss_bytes=max(self.max_rss_bytes, max_rss_bytes))


def descendants(pid: int) -> Iterator[int]:
    """Pids of all living descendants, parents first."""
    for task in _listing(Path(f"/proc/{pid}/task")):
        for child in _words(task / "children"):
            yield int(child)
            yield from descendants(int(child))


def tree_usage(pid: int) -> TreeUsage:
    """Usage of a process and its descendants so far; zeros where it is gone."""
    usages = [_process_usage(each) for each in (pid, *descendants(pid))]
    return TreeUsage(
        cpu_s=sum(usage.cpu_s for usage in usages), max_rss_bytes=max(usage.max_rss_bytes for usage in usages)
    )


def _process_usage(pid: int) -> TreeUsage:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return TreeUsage()
    ticks = sum(map(int, stat.rpartition(")")[2].split()[_TIMES_AFTER_NAME]))
    peak = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    return TreeUsage(cpu_s=ticks / _TICKS_PER_S, max_rss_bytes=1024 * peak[0] if peak else 0)


def _listing(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
