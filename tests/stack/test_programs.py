"""The supervisor's configuration, as the supervisor's own parser reads it."""

from configparser import RawConfigParser
from pathlib import Path

import pytest

from stack.installation import Installation
from stack.ports import Ports
from stack.programs import programs, supervisor_config

PORTS = Ports(airflow=8080, mlflow=5000, serving=8600)
NAMES = ("api-server", "scheduler", "dag-processor", "triggerer", "mlflow", "model-server")


@pytest.fixture
def parsed(installation):
    parser = RawConfigParser(inline_comment_prefixes=(";",))
    parser.read_string(supervisor_config(installation, PORTS))
    return parser


def test_every_program_restarts_whatever_its_exit_status(parsed):
    assert {parsed[f"program:{name}"]["autorestart"] for name in NAMES} == {"true"}


def test_only_the_servers_start_before_the_database_is_there(parsed):
    at_once = {name for name in NAMES if parsed[f"program:{name}"]["autostart"] == "true"}
    assert at_once == {"mlflow", "model-server"}


def test_all_are_in_one_group_so_that_they_stop_side_by_side(parsed):
    assert parsed["group:plimsoll"]["programs"].split(",") == list(NAMES)


def test_nothing_listens_beyond_the_loopback_interface(installation):
    commands = {program.name: program.command for program in programs(installation, PORTS)}
    for name, port in (("mlflow", "5000"), ("model-server", "8600")):
        command = commands[name]
        assert command[command.index("--host") + 1] == "127.0.0.1"
        assert command[command.index("--port") + 1] == port
    assert "--skip-serve-logs" in commands["scheduler"]
    assert "--skip-serve-logs" in commands["triggerer"]


def test_the_supervisor_has_no_network_door(parsed):
    assert not [section for section in parsed.sections() if "inet" in section]
    assert parsed["unix_http_server"]["chmod"] == "0600"


def test_a_folder_with_blanks_and_percent_signs_survives(tmp_path):
    odd = Installation(repo=Path("/my repo 100%"), var=tmp_path)
    text = supervisor_config(odd, PORTS)
    assert "command='/my repo 100%%/.venv/bin/airflow' scheduler --skip-serve-logs" in text
