"""Mistakes in the settings: one line each for the person at the terminal, never a traceback."""

import os
import subprocess
import sys
import traceback

import pytest

from include.config.settings import Settings
from stack.errors import SettingsError
from stack.installation import REPO, Installation, StackSettings
from stack.settings_mistakes import read_settings, refuse_what_a_run_lacks

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
    ("PLIMSOLL_EC2_SUBNETS", "subnet-01234567,subnet-89abcdef", "ids such as subnet-0123456789abcdef0, separated by"),
    ("PLIMSOLL_EC2_SUBNETS", "::", "ids such as subnet-0123456789abcdef0, separated by ':'"),
    ("PLIMSOLL_EC2_SECURITY_GROUPS", "sg-1,sg-2", "ids such as sg-0123456789abcdef0, separated by ':'"),
    ("PLIMSOLL_EC2_WORKER_WHEEL", "not-a-uri", "a URI such as s3://bucket/wheels/name.whl"),
    ("PLIMSOLL_EC2_WORKER_WHEEL", "/local/x.whl", "a URI such as s3://bucket/wheels/name.whl"),
    ("PLIMSOLL_EC2_WORKER_WHEEL", "gs://bucket/x.whl", "a URI such as s3://bucket/wheels/name.whl"),
    ("PLIMSOLL_EC2_WORKER_IMAGE", "a b; rm -rf /", "text that matches "),
    ("PLIMSOLL_EC2_WORKER_IMAGE", "x\ny", "text that matches "),
    ("PLIMSOLL_EC2_INSTANCE_PROFILE", "arn:", "text that matches "),
    ("PLIMSOLL_EC2_INSTANCE_PROFILE", "no such $(x)", "text that matches "),
    ("PLIMSOLL_NOTIFY_CONNECTIONS", ",,", "text that matches "),
    ("PLIMSOLL_LEDGER", "zzz", "an SQLAlchemy URL such as sqlite:////absolute/file.db or postgresql://"),
    ("PLIMSOLL_LEDGER", "sqlite://", "an SQLAlchemy URL such as sqlite:////absolute/file.db or postgresql://"),
]
GOOD = {
    "PLIMSOLL_EC2_SUBNETS": "subnet-01234567:subnet-0123456789abcdef0",
    "PLIMSOLL_EC2_SECURITY_GROUPS": "sg-01234567",
    "PLIMSOLL_EC2_WORKER_WHEEL": "s3://bucket/wheels/plimsoll_worker-1.0+cpu-py3-none-any.whl",
    "PLIMSOLL_EC2_WORKER_IMAGE": "123456789012.dkr.ecr.us-east-1.amazonaws.com/plimsoll/worker:1@sha256:0123abcd",
    "PLIMSOLL_EC2_INSTANCE_PROFILE": "arn:aws:iam::123456789012:instance-profile/team/worker",
    "PLIMSOLL_NOTIFY_CONNECTIONS": "hook-1,hook_2",
    "PLIMSOLL_LEDGER": "postgresql+psycopg://user:password@host:5432/ledger",
    "PLIMSOLL_STORE": "s3://bucket/some/prefix",
}


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


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("PLIMSOLL_STORE", "s3://user:SECRET@bucket/x"),
        ("PLIMSOLL_STORE", "s3://user:SEC/RET@bucket/x"),
        ("PLIMSOLL_STORE", "gs://SECRET@bucket"),
        ("PLIMSOLL_STORE", "s3://bucket/x?secret_access_key=SECRET"),
        ("PLIMSOLL_STORE", "ftp://user:SECRET@host/x"),
        ("PLIMSOLL_LEDGER", "postgresql://user:SECRET@host:abc/db"),
        ("PLIMSOLL_EC2_WORKER_WHEEL", "s3://user:SECRET@bucket/x.whl"),
    ],
)
def test_credentials_in_a_url_are_refused_or_wrong_and_never_repeated(variable, found):
    with pytest.raises(SettingsError) as caught:
        read_settings({variable: found})
    shown = "".join(traceback.format_exception(caught.value))
    assert f"{variable} cannot be used" in shown
    assert "SEC" not in shown
    assert "RET" not in shown


@pytest.mark.parametrize("variable", GOOD)
def test_what_ec2_takes_is_taken(variable):
    read_settings({variable: GOOD[variable]})
    assert Settings.from_environment({variable: GOOD[variable]}).to_environment()[variable] == GOOD[variable]


def test_a_name_that_is_none_is_a_warning_with_those_that_are_near(capsys):
    read_settings({"PLIMSOLL_EC2_SUBNET": "subnet-01234567", "PLIMSOLL_ZZZ": "1", "PLIMSOLL_JOB_DIR": "/x", "PATH": ""})
    near, far = capsys.readouterr().err.splitlines()
    assert near.startswith("warning: PLIMSOLL_EC2_SUBNET is no setting and has no effect | near: PLIMSOLL_EC2_SUBNETS")
    assert far == "warning: PLIMSOLL_ZZZ is no setting and has no effect"


def test_a_run_on_ec2_with_nothing_to_start_is_refused_before_any_work():
    with pytest.raises(SettingsError, match=r"^PLIMSOLL_ENGINE=ec2 has nothing to start on an instance \| do: [^\n]*$"):
        refuse_what_a_run_lacks(StackSettings(), {"PLIMSOLL_ENGINE": "ec2"})
    refuse_what_a_run_lacks(StackSettings(), {})
    refuse_what_a_run_lacks(StackSettings(ec2_double=True), {})
    refuse_what_a_run_lacks(StackSettings(), {"PLIMSOLL_ENGINE": "ec2", "PLIMSOLL_EC2_WORKER_IMAGE": "worker:1"})


@pytest.mark.parametrize("name", ["/no/such", "~/q.yaml", "tests"])
def test_a_run_without_its_quota_file_is_refused_and_ending_leases_is_not(name):
    source = {"PLIMSOLL_QUOTA_FILE": name}
    with pytest.raises(SettingsError, match=f"^PLIMSOLL_QUOTA_FILE cannot be used . found: '{name}' . allowed: a file"):
        refuse_what_a_run_lacks(StackSettings(), source)
    read_settings(source)


def test_make_run_asks_for_what_it_lacks():
    answer = subprocess.run(
        [sys.executable, "-m", "stack.run"],
        cwd=REPO,
        env={**os.environ, "PLIMSOLL_QUOTA_FILE": "/no/such"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 64
    assert (answer.stdout + answer.stderr).startswith("make run: PLIMSOLL_QUOTA_FILE cannot be used")
