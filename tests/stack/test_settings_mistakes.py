"""Mistakes in the settings: one line each for the person at the terminal, never a traceback."""

import os
import subprocess
import sys

import pytest

from stack.errors import SettingsError
from stack.installation import REPO, Installation, StackSettings
from stack.settings_mistakes import read_settings

MISTAKES = [
    ("PLIMSOLL_PORT_AIRFLOW", "abc", "a whole number from 1 up to 65535"),
    ("PLIMSOLL_PORT_MLFLOW", "99999", "a whole number from 1 up to 65535"),
    ("PLIMSOLL_START_TIMEOUT_S", "-1", "a number above 0"),
    ("PLIMSOLL_START_TIMEOUT_S", "inf", "a number above 0"),
    ("PLIMSOLL_TORCH_THREADS", "0", "a whole number from 1"),
    ("PLIMSOLL_IDLE_W", "", "a number"),
    ("PLIMSOLL_ENERGY_METER", "wet", "text that matches ^(auto|codecarbon|estimate)$"),
    ("PLIMSOLL_IDLE_W", "-1", "a number from 0"),
    ("PLIMSOLL_PEAK_W", "5", "a number from 10, the power at idle"),
    ("PLIMSOLL_LOST_AFTER_S", "0", "a number above 0"),
    ("PLIMSOLL_LEASE_EXPIRES_S", "-5", "a number above 0"),
    ("PLIMSOLL_LEASE_IDLE_S", "-5", "a number above 0"),
    ("PLIMSOLL_QUOTA_LEASES", "-2", "a whole number from 1"),
    ("PLIMSOLL_PREEMPTION_BUDGET", "-1", "a whole number from 0"),
    ("PLIMSOLL_TARIFF_AS_OF", "tomorrow", "an ISO date such as 2026-11-30"),
    ("PLIMSOLL_USD_PER_KWH", "-0.3", r"text that matches ^\d{1,6}(\.\d{1,9})?$"),
    ("PLIMSOLL_TARIFF_AS_OF", "2099-01-01", "an ISO date such as 2026-11-30, not after today"),
    ("PLIMSOLL_REGION", "mars", "one of world, af-south-1, "),
    ("PLIMSOLL_STORE", "here", "a URL that begins with one of file://, s3://, gs://, az://"),
]


@pytest.mark.parametrize(("variable", "found", "allowed"), MISTAKES)
def test_a_mistake_names_the_variable_the_value_and_the_choice(variable, found, allowed):
    with pytest.raises(SettingsError) as caught:
        read_settings({variable: found})
    line = str(caught.value)
    assert line.startswith(f"{variable} cannot be used | found: {found!r} | allowed: {allowed}")
    assert "\n" not in line


def test_good_settings_are_read():
    assert read_settings({"PLIMSOLL_PORT_AIRFLOW": "81", "PLIMSOLL_IDLE_W": "3"}) == StackSettings(port_airflow=81)


@pytest.mark.parametrize("command", ["run", "stop"])
def test_both_commands_print_a_line_per_mistake_and_end_with_64(command):
    mistakes = {"PLIMSOLL_PORT_AIRFLOW": "abc", "PLIMSOLL_IDLE_W": ""}
    answer = subprocess.run(
        [sys.executable, "-m", f"stack.{command}"],
        cwd=REPO,
        env={**os.environ, **mistakes},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (answer.stdout + answer.stderr).splitlines()
    assert answer.returncode == 64
    assert [line.split()[:3] for line in lines] == [["make", f"{command}:", name] for name in mistakes]


@pytest.mark.parametrize(
    "command",
    [
        ("include.jobs.check_workload", "include/workloads/digits.yaml"),
        ("include.compute.stop_all", "--dry-run"),
        ("include.compute.agent", "some-lease"),
        ("include.ledger.migrate",),
        ("include.registry.protect_set",),
        ("include.serving.server", "--port", "0"),
    ],
    ids=lambda command: command[0],
)
def test_every_program_prints_the_line_and_no_traceback(command):
    answer = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=REPO,
        env={**os.environ, "PLIMSOLL_QUOTA_LEASES": "-2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    said = answer.stdout + answer.stderr
    assert "PLIMSOLL_QUOTA_LEASES cannot be used | found: '-2' | allowed: a whole number from 1" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("kind", ["below /proc", "a file", "below a file", "a circle of links", "nobody's home"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, kind):
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    var = {
        "below /proc": "/proc/plimsoll/var",
        "a file": tmp_path / "file",
        "below a file": tmp_path / "file" / "var",
        "a circle of links": tmp_path / "circle",
        "nobody's home": "~no-such-user-here/var",
    }[kind]
    with pytest.raises(
        SettingsError, match=r"^PLIMSOLL_VAR cannot be used \| found: '[^\n]*' \([^\n]+\) \| allowed: a folder"
    ):
        Installation.of(StackSettings(var=var)).create()
