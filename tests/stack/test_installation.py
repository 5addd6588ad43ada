"""Folders, modes and the settings of the stack."""

import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from stack.installation import REPO, Installation, StackSettings


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_is_readable_by_its_owner_only(tmp_path):
    (tmp_path / "var").mkdir(mode=0o755)
    made = Installation(repo=tmp_path, var=tmp_path / "var")
    made.create()
    assert {mode(p) for p in (made.var, made.run, made.logs, made.secrets, made.airflow_home, made.mlflow)} == {0o700}


def test_settings_come_from_the_environment_and_empty_means_not_set():
    settings = StackSettings.from_environment(
        {"PLIMSOLL_VAR": "/x/y", "PLIMSOLL_PORT_MLFLOW": "", "PLIMSOLL_PORT_AIRFLOW": "81"}
    )
    assert settings == StackSettings(var=Path("/x/y"), port_airflow=81)
    assert StackSettings.from_environment({}).var == REPO / "var"


def test_a_port_that_is_none_is_refused():
    with pytest.raises(ValidationError):
        StackSettings.from_environment({"PLIMSOLL_PORT_AIRFLOW": "70000"})


def test_a_deep_folder_gets_a_socket_path_that_the_kernel_takes(tmp_path):
    deep = Installation(repo=tmp_path, var=tmp_path / ("d" * 90))
    other = Installation(repo=tmp_path, var=tmp_path / ("e" * 90))
    assert len(str(deep.supervisor_socket)) < 100
    assert deep.supervisor_socket != other.supervisor_socket
    near = Installation(repo=Path("/r"), var=Path("/r/var"))
    assert near.supervisor_socket == Path("/r/var/run/supervisor.sock")
