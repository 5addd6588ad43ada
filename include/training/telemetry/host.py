"""The host by psutil: CPU, waiting for disks, network, disks, memory. Of the whole machine: others on it count too."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from include.training.telemetry.facts import (
    DISK_READ,
    DISK_WRITTEN,
    HOST_CPU,
    HOST_IO_WAIT,
    HOST_MEMORY_AVAILABLE,
    NETWORK_RECEIVED,
    NETWORK_SENT,
    PROCESS_RSS,
    WORKER_CPU,
)
from include.training.telemetry.readers import Rates

_CGROUP = Path("/sys/fs/cgroup")


class HostReader:
    """Series of this host.

    Args:
        clock: Monotonic seconds.
    """

    name = "host"

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rates = Rates()
        self._process = psutil.Process()
        self._cpu = psutil.cpu_times()
        self._cores = psutil.cpu_count() or 1

    def open(self) -> str | None:
        """Always answers. The first look only sets the marks of the rates."""
        self.read()
        return None

    def read(self) -> dict[str, float | None]:
        """One look."""
        busy, waiting = self._cpu_shares()
        return {
            HOST_CPU: busy,
            HOST_IO_WAIT: waiting,
            WORKER_CPU: self._worker_cpu(),
            HOST_MEMORY_AVAILABLE: available_memory_bytes(),
            PROCESS_RSS: float(self._process.memory_info().rss),
            **self._traffic(),
        }

    def close(self) -> None:
        """Nothing is open."""

    def _cpu_shares(self) -> tuple[float | None, float | None]:
        before, self._cpu = self._cpu, psutil.cpu_times()
        spent = {name: getattr(self._cpu, name) - getattr(before, name) for name in self._cpu._fields}
        # Guest time is already in user time.
        total = sum(value for name, value in spent.items() if not name.startswith("guest"))
        if total <= 0:
            return None, None
        waiting = spent.get("iowait")
        busy = total - spent["idle"] - (waiting or 0.0)
        return busy / total, None if waiting is None else waiting / total

    def _worker_cpu(self) -> float | None:
        """CPU seconds per second of this process and those that its main thread started, over all cores."""
        spent = sum(map(_cpu_seconds, (self._process.pid, *self._started())))
        rate = self._rates.per_s(WORKER_CPU, value=spent, at=self._clock())
        return None if rate is None else min(1.0, rate / self._cores)

    def _started(self) -> list[int]:
        """Loader processes, from the kernel's list of them: looking at all processes would cost milliseconds."""
        pid = self._process.pid
        try:
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        except OSError:
            return []
        return [int(child) for child in found]

    def _traffic(self) -> dict[str, float | None]:
        now = self._clock()
        found: dict[str, float | None] = {}
        network, disks = psutil.net_io_counters(), psutil.disk_io_counters()
        if network is not None:
            found[NETWORK_RECEIVED] = self._rates.per_s(NETWORK_RECEIVED, value=network.bytes_recv, at=now)
            found[NETWORK_SENT] = self._rates.per_s(NETWORK_SENT, value=network.bytes_sent, at=now)
        if disks is not None:
            found[DISK_READ] = self._rates.per_s(DISK_READ, value=disks.read_bytes, at=now)
            found[DISK_WRITTEN] = self._rates.per_s(DISK_WRITTEN, value=disks.write_bytes, at=now)
        return found


def _cpu_seconds(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0  # it ended meanwhile
    return float(times.user + times.system)


def available_memory_bytes(cgroup: Path = _CGROUP) -> float:
    """Memory that is left to this process. Page cache that can be dropped counts as left, as in Kubernetes."""
    machine = float(psutil.virtual_memory().available)
    limit, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    if limit is None or used is None:
        return machine
    return min(machine, float(limit - used + _droppable_bytes(cgroup / "memory.stat")))


def _droppable_bytes(stat: Path) -> int:
    try:
        lines = dict(line.split() for line in stat.read_text(encoding="ascii").splitlines())
        return int(lines["inactive_file"])
    except (OSError, ValueError, KeyError):
        return 0


def _number(path: Path) -> int | None:
    """Content of a file; None where there is none, and for ``max``, which is no limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
