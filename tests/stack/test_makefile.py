"""The vocabulary of commands, and what continuous integration calls."""

import os
import subprocess

import pytest

from stack.installation import REPO

COMMANDS = ("run", "stop", "test", "test-fast", "drills", "bench", "lint", "docs", "help")
COMMANDS += ("check-workload", "pins", "wheel")


def make(*words, **environ):
    return subprocess.run(
        ["make", *words], cwd=REPO, capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )


def test_help_lists_every_command():
    listed = [line.split()[1] for line in make("help").stdout.splitlines()]
    assert sorted(listed) == sorted(COMMANDS)
    assert make().stdout == make("help").stdout


@pytest.mark.parametrize("once", ["", "0"])
def test_a_run_goes_on_unless_once_is_asked_for(once):
    assert "--once" not in make("-n", "run", f"ONCE={once}").stdout


def test_the_runs_options_reach_the_command():
    text = make("-n", "run", "WORKLOAD=titanic", "ONCE=1", "DRILL=0").stdout
    assert '--workload "titanic" --drill "0" --once' in text
    assert text.index("stack.environment") < text.index("stack.run")


def test_continuous_integration_calls_make_test():
    text = (REPO / ".ci/run").read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert text.rstrip().endswith("make test")
    assert os.access(REPO / ".ci/run", os.X_OK)
    assert subprocess.run(["bash", "-n", REPO / ".ci/run"], check=False).returncode == 0


def test_the_set_up_can_be_told_which_python():
    assert "python3.12 -m stack.environment" in make("-n", "run", "PYTHON=python3.12").stdout
