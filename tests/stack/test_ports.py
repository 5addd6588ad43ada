"""Ports: the wanted one, the next free one, pinned ones."""

import os
import socket

import pytest

from stack import ports
from stack.errors import StackError
from stack.installation import StackSettings


@pytest.fixture
def reservations(tmp_path):
    made = ports.Reservations(tmp_path / "ports")
    yield made
    made.release()


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


def test_a_wanted_port_in_use_gives_the_next_free_one_and_one_line(listener, monkeypatch, reservations):
    monkeypatch.setattr(ports, "WANTED", {"airflow": listener, "mlflow": listener, "serving": listener})
    said = []
    chosen = ports.choose(StackSettings(), said.append, reservations.take)
    taken = [chosen.airflow, chosen.mlflow, chosen.serving]
    assert listener not in taken
    assert len(set(taken)) == 3
    assert said[0] == f"Port {listener} is in use: airflow takes {chosen.airflow}."
    assert len(said) == 3


def test_a_pinned_port_in_use_is_an_error_that_names_the_setting(listener, reservations):
    with pytest.raises(StackError, match=rf"Port {listener} is in use, and PLIMSOLL_PORT_MLFLOW asks for it"):
        ports.choose(StackSettings(port_mlflow=listener), lambda line: None, reservations.take)


def test_two_servers_cannot_be_pinned_to_one_port(reservations):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    with pytest.raises(StackError, match="PLIMSOLL_PORT_SERVING"):
        ports.choose(StackSettings(port_airflow=free, port_serving=free), lambda line: None, reservations.take)


def test_pinned_free_ports_are_taken_silently(reservations):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    said = []
    assert ports.choose(StackSettings(port_serving=free), said.append, reservations.take).serving == free
    assert not any("serving" in line for line in said)


def all_on(port):
    return ports.Ports(airflow=port, mlflow=port, serving=port)


def test_a_listener_that_is_no_descendant_is_a_stranger(server, sleeper):
    process, _ = sleeper()
    assert ports.strangers(all_on(server.port), process.pid)[0] == f"airflow (port {server.port})"


def test_a_listener_below_the_root_is_none_and_neither_is_a_free_port():
    import subprocess
    import sys

    code = "import socket, time\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1)\n"
    code += "print(s.getsockname()[1], flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        port = int(child.stdout.readline())
        assert ports.strangers(all_on(port), os.getpid()) == []
        child.kill()
    assert ports.strangers(all_on(port), os.getpid()) == []


def test_two_starts_at_once_choose_different_ports(tmp_path, reservations):
    other = ports.Reservations(tmp_path / "ports")
    first = ports.choose(StackSettings(), lambda line: None, reservations.take)
    second = ports.choose(StackSettings(), lambda line: None, other.take)
    assert not {first.airflow, first.mlflow, first.serving} & {second.airflow, second.mlflow, second.serving}
    reservations.release()
    assert other.take(first.airflow)
    other.release()
