"""Ports on the loopback interface: the wanted one, else the next free one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from stack.errors import StackError
from stack.installation import StackSettings

LOOPBACK = "127.0.0.1"
_TRIES = 200
WANTED = {"airflow": 8080, "mlflow": 5000, "serving": 8600}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of the three servers."""

    airflow: int
    mlflow: int
    serving: int

    def url(self, server: str) -> str:
        """Base URL of one server."""
        return f"http://{LOOPBACK}:{getattr(self, server)}"


def is_free(port: int) -> bool:
    """Whether a server could listen on the port of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without it, connections of a server that just ended would look like a server for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose(settings: StackSettings, say: Callable[[str], None]) -> Ports:
    """Find a port for each server.

    Args:
        settings: Pinned ports.
        say: Takes the line that tells of another port than the wanted one.

    Raises:
        StackError: A pinned port is in use, or no free one was found.
    """
    taken: set[int] = set()
    chosen: dict[str, int] = {}
    for name, wanted in WANTED.items():
        pinned = getattr(settings, f"port_{name}")
        port = _pinned(name, pinned, taken) if pinned else _next_free(name, wanted, taken)
        if port != (pinned or wanted):
            say(f"Port {wanted} is in use: {name} takes {port}.")
        taken.add(port)
        chosen[name] = port
    return Ports(**chosen)


def _pinned(name: str, port: int, taken: set[int]) -> int:
    if port in taken or not is_free(port):
        raise StackError(
            f"Port {port} is in use, and PLIMSOLL_PORT_{name.upper()} asks for it: end the program that uses it, "
            "choose another port, or leave the setting out."
        )
    return port


def _next_free(name: str, wanted: int, taken: set[int]) -> int:
    for port in range(wanted, wanted + _TRIES):
        if port not in taken and is_free(port):
            return port
    raise StackError(f"No free port for {name} between {wanted} and {wanted + _TRIES - 1}.")


def listener_is_below(port: int, root_pid: int) -> bool | None:
    """Whether the program that listens on a port descends from a process; None while nobody listens.

    A port that was free a second ago may have been taken by another program, which would then answer in our place.
    """
    try:
        family = psutil.Process(root_pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    for process in family:
        try:
            connections = process.net_connections(kind="tcp4")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections):
            return True
    return None if is_free(port) else False
