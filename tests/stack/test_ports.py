"""Ports: the wanted one, the next free one, pinned ones."""

import os
import socket

import pytest

from stack import ports
from stack.errors import StackError
from stack.installation import StackSettings


@pytest.fixture
def listener():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        yield taken.getsockname()[1]


def test_a_port_with_a_listener_is_not_free(listener):
    assert not ports.is_free(listener)


def test_a_listener_on_all_interfaces_takes_the_loopback_port_too():
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("", 0))
        taken.listen(1)
        assert not ports.is_free(taken.getsockname()[1])


def test_a_wanted_port_in_use_gives_the_next_free_one_and_one_line(listener, monkeypatch):
    monkeypatch.setattr(ports, "WANTED", {"airflow": listener, "mlflow": listener, "serving": listener})
    said = []
    chosen = ports.choose(StackSettings(), said.append)
    taken = [chosen.airflow, chosen.mlflow, chosen.serving]
    assert listener not in taken
    assert len(set(taken)) == 3
    assert said[0] == f"Port {listener} is in use: airflow takes {chosen.airflow}."
    assert len(said) == 3


def test_a_pinned_port_in_use_is_an_error_that_names_the_setting(listener):
    with pytest.raises(StackError, match=rf"Port {listener} is in use, and PLIMSOLL_PORT_MLFLOW asks for it"):
        ports.choose(StackSettings(port_mlflow=listener), lambda line: None)


def test_two_servers_cannot_be_pinned_to_one_port(listener):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    with pytest.raises(StackError, match="PLIMSOLL_PORT_SERVING"):
        ports.choose(StackSettings(port_airflow=free, port_serving=free), lambda line: None)


def test_pinned_free_ports_are_taken_silently():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    said = []
    assert ports.choose(StackSettings(port_serving=free), said.append).serving == free
    assert not any("serving" in line for line in said)


def test_a_listener_that_is_no_descendant_is_a_stranger(server, sleeper):
    process, _ = sleeper()
    assert ports.listener_is_below(server.port, process.pid) is False


def test_a_listener_below_the_root_is_ours(sleeper):
    import subprocess
    import sys

    code = "import socket, time\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1)\n"
    code += "print(s.getsockname()[1], flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        port = int(child.stdout.readline())
        assert ports.listener_is_below(port, os.getpid()) is True
        child.kill()
    assert ports.listener_is_below(port, os.getpid()) is None
