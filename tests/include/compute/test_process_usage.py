"""CPU and memory of a living tree, and the end of what a job leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys

from include.compute.process_usage import TreeUsage, descendants, tree_usage
from tests.support.waiting import eventually

SPIN_THEN_WAIT = """
import subprocess, sys, time
if len(sys.argv) > 1:
    inner = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
while time.process_time() < 0.3:
    pass
print("spun", flush=True)
sys.stdin.read()
"""
ADOPT = """
import os, subprocess, sys
from include.compute.orphans import adopt_orphans, end_descendants
from include.compute.process_usage import descendants
adopt_orphans()
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
middle = f"import subprocess; subprocess.Popen({sleeper!r}, start_new_session=True)"
subprocess.run([sys.executable, "-c", middle], check=True)
before = list(descendants(os.getpid()))
print(len(before), end_descendants(), len(list(descendants(os.getpid()))))
"""


def test_the_whole_tree_counts():
    process = subprocess.Popen(
        [sys.executable, "-c", SPIN_THEN_WAIT, SPIN_THEN_WAIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"spun\n"] * 2
        assert len(list(descendants(process.pid))) == 1
        usage = eventually(lambda: found if (found := tree_usage(process.pid)).cpu_s >= 0.58 else None)
        assert usage.cpu_s < 5.0
        assert usage.max_rss_bytes > 4_000_000
    finally:
        process.communicate()


def test_a_process_that_is_gone_counts_nothing():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert tree_usage(process.pid) == TreeUsage()


def test_the_larger_figure_of_two_looks_holds():
    seen = TreeUsage(cpu_s=3.0, max_rss_bytes=10)
    assert seen.at_least(cpu_s=1.0, max_rss_bytes=20) == TreeUsage(cpu_s=3.0, max_rss_bytes=20)


def test_an_orphan_is_adopted_and_ended():
    found = subprocess.run(
        [sys.executable, "-c", ADOPT], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["1", "1", "0"]
