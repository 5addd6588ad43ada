"""The vocabulary of commands, and what continuous integration calls."""

import os
import subprocess

import pytest

from stack.installation import REPO

COMMANDS = ("run", "stop", "test", "test-fast", "drills", "bench", "lint", "docs", "help")
COMMANDS += ("check-workload", "gpu-check", "pins", "wheel", "plan", "reap", "cancel", "raise-budget")


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
    text = make("-n", "run").stdout
    assert text.index("stack.environment") < text.index("stack.run")


def test_a_run_on_the_double_sets_up_what_tests_need():
    assert "--profile test" in make("-n", "run", "ENGINE=ec2-local").stdout
    assert "--profile run" in make("-n", "run", "ENGINE=local").stdout


@pytest.fixture
def arguments(tmp_path):
    """``arguments(command, **variables)``: what the program behind a command is called with; nothing real runs."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    python.chmod(0o755)
    given = ("PYTHON=true", f"VENV={tmp_path}")

    def call(command, *, by_environment=False, **variables):
        if by_environment:
            return make(command, *given, **variables).stdout.splitlines()
        return make(command, *given, *(f"{name}={text}" for name, text in variables.items())).stdout.splitlines()

    return call


def test_the_options_are_passed_on(arguments):
    words = arguments("run", WORKLOAD="titanic", ONCE="1", DRILL="0", ENGINE="ec2-local")
    assert words == ["-m", "stack.run", "--workload=titanic", "--drill=0", "--engine=ec2-local", "--once"]
    assert arguments("run") == ["-m", "stack.run", "--workload=", "--drill=", "--engine="]
    assert arguments("check-workload") == ["-m", "include.jobs.check_workload"]


def test_a_pass_of_the_reaper_takes_its_options(arguments):
    assert arguments("reap") == ["-m", "stack.reap"]
    assert arguments("reap", DRY="1", CAP="7", JSON="1") == ["-m", "stack.reap", "--dry-run", "--cap=7", "--json"]
    assert arguments("reap", DRY="0") == ["-m", "stack.reap"]


def test_a_run_to_be_cancelled_is_one_word_whatever_is_in_it(arguments):
    assert arguments("cancel", RUN="digits/manual__2026 $(x) 'a'") == [
        "-m",
        "stack.cancel",
        "--run=digits/manual__2026 $(x) 'a'",
    ]


def test_a_packing_file_goes_to_the_packer(arguments):
    assert arguments("plan", PACKING="a b.yaml") == ["-m", "stack.plan_packing", "--", "a b.yaml"]
    words = arguments("plan", PACKING="p.yaml", JSON="1", WORKLOAD="digits")
    assert words == ["-m", "stack.plan_packing", "--json", "--", "p.yaml"]


def test_the_plans_options_are_passed_on(arguments):
    words = arguments("plan", WORKLOAD="titanic", JSON="1", ENGINE="any", QUOTA="p=96", FRESH="1")
    assert words == ["-m", "stack.plan", "--workload=titanic", "--engine=any", "--quota=p=96", "--json", "--fresh"]
    assert arguments("plan", JSON="0") == ["-m", "stack.plan", "--workload=", "--engine=", "--quota="]


@pytest.mark.parametrize("by_environment", [False, True])
@pytest.mark.parametrize("text", ['a"; touch {}; "', "$(touch {})", "`touch {}`", "$(shell touch {})"])
def test_a_persons_text_is_never_executed(arguments, tmp_path, text, by_environment):
    mark = tmp_path / "mark"
    text = text.format(mark)
    assert f"--workload={text}" in arguments("run", by_environment=by_environment, WORKLOAD=text)
    assert f"--drill={text}" in arguments("run", by_environment=by_environment, DRILL=text, ONCE=text)
    assert f"--quota={text}" in arguments("plan", by_environment=by_environment, QUOTA=text, WORKLOAD=text, JSON=text)
    assert text in arguments("check-workload", by_environment=by_environment, FILE=text)
    assert arguments("bench", by_environment=by_environment, BENCH=text)[0].startswith("Usage: make bench")
    assert not mark.exists()


def test_continuous_integration_calls_make_test():
    text = (REPO / ".ci/run").read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert text.rstrip().endswith("make test")
    assert os.access(REPO / ".ci/run", os.X_OK)
    assert subprocess.run(["bash", "-n", REPO / ".ci/run"], check=False).returncode == 0


def test_the_set_up_can_be_told_which_python():
    assert "python3.12 -m stack.environment" in make("-n", "run", "PYTHON=python3.12").stdout


def test_a_raised_budget_is_passed_on(arguments):
    words = arguments("raise-budget", RUN="digits/manual__1", USD="12.5")
    assert words == ["-m", "stack.raise_budget", "--run=digits/manual__1", "--usd=12.5"]
