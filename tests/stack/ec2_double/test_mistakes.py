"""Mistakes of who uses the double: one line, or a 400, and nothing changes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from stack.ec2_double import Ec2Double
from stack.ec2_double.__main__ import main
from stack.ec2_double.control import answer_control


def faults(double: Ec2Double, document: object) -> tuple[int, dict[str, object]]:
    status, _, body = answer_control(double, method="POST", path="/_double/faults", body=json.dumps(document).encode())
    return status, json.loads(body)


@pytest.mark.parametrize(
    "document",
    [
        {"forbiden": ["RunInstances"]},
        {"forbidden": "RunInstances"},
        {"rules": [{"action": "RunInstances"}], "forbidden": ["RunInstances"]},
        [],
        "RunInstances",
    ],
)
def test_faults_that_are_none_are_refused_as_a_whole(document: object):
    double = Ec2Double()
    status, answer = faults(double, document)
    assert status == 400
    assert answer["error"]
    assert double.faults.forbidden == set()


def test_faults_are_taken():
    double = Ec2Double()
    rule = {"action": "RunInstances", "code": "Unavailable", "times": None}
    assert faults(double, {"rules": [rule], "forbidden": ["DescribeVolumes"]})[0] == 200
    assert double.faults.forbids("DescribeVolumes")
    assert double.faults.next(service="ec2", action="RunInstances", parameters={}).code == "Unavailable"


@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_a_port_that_is_none_is_told(port: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main([f"--port={port}"])
    assert f"'{port}' is no port | allowed: 0 to 65535" in capsys.readouterr().err


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    def run(*arguments: str) -> str:
        assert main(["--work-root", str(tmp_path / "work"), *arguments]) == 64
        (record,) = caplog.records
        assert record.exc_info is None
        assert "\n" not in record.getMessage()
        return record.getMessage()

    return run


def test_a_port_in_use_is_one_line(told):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"port {port}" in told("--port", str(port))


def test_a_market_that_cannot_be_used_is_one_line(told, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    assert "nope.json" in told("--port=0", "--market", str(tmp_path / "nope.json"))
    caplog.clear()
    (tmp_path / "market.json").write_text('{"capacities": []}')
    assert "capacities" in told("--port=0", "--market", str(tmp_path / "market.json"))
