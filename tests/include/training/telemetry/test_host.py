from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from include.catalog.local import usable_cores, usable_ram_bytes
from include.training.telemetry.facts import HOST_CPU, HOST_MEMORY_AVAILABLE, NETWORK_RECEIVED, PROCESS_RSS, WORKER_CPU
from include.training.telemetry.host import HostReader, available_memory_bytes


def test_host_tells_shares_and_memory() -> None:
    reader = HostReader()
    assert reader.open() is None
    end = psutil.cpu_times().user + 0.05
    while psutil.cpu_times().user < end:
        sum(range(10_000))
    found = reader.read()
    assert 0 < found[HOST_CPU] <= 1
    assert found[PROCESS_RSS] > 2**20
    assert found[HOST_MEMORY_AVAILABLE] > 0


def test_processes_that_the_worker_started_are_its_own_cpu() -> None:
    now = [0.0]
    reader = HostReader(clock=lambda: now[0])
    reader.open()
    program = "import time\nwhile time.process_time() < 0.3: pass\nprint('busy', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as loader:
        assert loader.stdout.readline() == b"busy\n"
        now[0] = 1.0
        found = reader.read()[WORKER_CPU]
        loader.stdin.close()
    # The kernel counts user and system time in ticks of 10 ms, each rounded down.
    assert found >= 0.279 / psutil.cpu_count()
    assert found <= 1


def test_rates_need_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    reader = HostReader(clock=lambda: now[0])
    counters = psutil.net_io_counters()
    assert reader.read()[NETWORK_RECEIVED] is None
    now[0] = 2.0
    monkeypatch.setattr(psutil, "net_io_counters", lambda: counters._replace(bytes_recv=counters.bytes_recv + 10**9))
    assert reader.read()[NETWORK_RECEIVED] == pytest.approx(0.5e9, rel=0.2)


def test_machine_without_disk_counters_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: None)
    assert not [name for name in HostReader().read() if name.startswith("disk")]


def test_memory_of_a_container_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(str(2**30))
    (tmp_path / "memory.current").write_text(str(900 * 2**20))
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {300 * 2**20}\n")
    assert usable_ram_bytes(tmp_path / "memory.max") == 2**30
    assert available_memory_bytes(tmp_path) == (1024 - 900 + 300) * 2**20


def test_container_without_a_limit_has_the_machine(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_ram_bytes(tmp_path / "memory.max") == psutil.virtual_memory().total
    assert usable_cores() >= 1
