"""The environment that the stack's programs get."""

import stat
from pathlib import Path

import pytest

from stack import child_environment
from stack.credentials import load_or_create
from stack.ports import Ports

PORTS = Ports(airflow=8091, mlflow=5051, serving=8651)


@pytest.fixture
def build(installation):
    secrets = load_or_create(installation)
    return lambda **environ: child_environment.build(installation, PORTS, secrets, environ)


def test_airflow_is_configured_by_variables_alone(build, installation):
    found = build(PATH="/usr/bin")
    assert found["AIRFLOW_HOME"] == str(installation.var / "airflow")
    assert found["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert found["AIRFLOW__API__PORT"] == "8091"
    assert found["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8091/execution/"
    assert found["AIRFLOW__CORE__EXECUTOR"] == "stack.local_executor.PatientLocalExecutor"
    assert found["AIRFLOW__CORE__LOAD_EXAMPLES"] == "False"
    assert int(found["AIRFLOW__EXECUTION_API__JWT_EXPIRATION_TIME"]) > 600
    assert found["PATH"] == f"{installation.bin}:/usr/bin"
    assert found["PYTHONPATH"] == str(installation.repo)


def test_the_engine_gets_this_installations_places(build, installation):
    found = build()
    assert found["PLIMSOLL_STORE"] == f"file://{installation.var}/store"
    assert found["PLIMSOLL_WORK_ROOT"] == str(installation.var / "work")
    assert found["PLIMSOLL_MLFLOW_URI"] == "http://127.0.0.1:5051"
    assert found["PLIMSOLL_SERVING_URL"] == "http://127.0.0.1:8651"


def test_a_persons_own_settings_win(build):
    found = build(PLIMSOLL_STORE="s3://bucket/x", PLIMSOLL_REGION="eu-west-3", AWS_PROFILE="p")
    assert (found["PLIMSOLL_STORE"], found["PLIMSOLL_REGION"], found["AWS_PROFILE"]) == (
        "s3://bucket/x",
        "eu-west-3",
        "p",
    )


def test_what_belongs_to_another_airflow_or_python_does_not_come_in(build):
    found = build(
        AIRFLOW_HOME="/other",
        AIRFLOW__CORE__EXECUTOR="CeleryExecutor",
        AIRFLOW_CONN_X="y",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONPATH="/other",
        VIRTUAL_ENV="/other",
        MLFLOW_TRACKING_URI="http://elsewhere",
    )
    assert found["AIRFLOW__CORE__EXECUTOR"].endswith("LocalExecutor")
    for name in ("AIRFLOW_CONN_X", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "MLFLOW_TRACKING_URI"):
        assert name not in found


def test_loopback_goes_past_a_proxy_and_nothing_calls_home(build):
    found = build(NO_PROXY="intra.example", HTTP_PROXY="http://proxy")
    assert found["NO_PROXY"] == "intra.example,127.0.0.1,localhost"
    assert found["no_proxy"] == "127.0.0.1,localhost"
    assert found["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert found["GX_ANALYTICS_ENABLED"] == "false"
    assert found["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"


def test_the_shell_file_is_private_and_leaves_foreign_secrets_out(build, tmp_path):
    path = tmp_path / "environment.sh"
    child_environment.write_shell_file(build(PATH="/bin", AWS_SECRET_ACCESS_KEY="s"), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = Path(path).read_text()
    assert "AWS_SECRET" not in text
    assert "export MLFLOW_TRACKING_URI=http://127.0.0.1:5051" in text
