"""Ports on the loopback interface: the wanted one, else the next free one."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from stack.errors import StackError
from stack.installation import StackSettings

LOOPBACK = "127.0.0.1"
_TRIES = 200
WANTED = {"airflow": 8080, "mlflow": 5000, "serving": 8600}
# Only a stack that rents from the EC2 double has this one.
EC2 = {"ec2": 8700}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of the servers; ``ec2`` is that of the EC2 double, None in a stack without one."""

    airflow: int
    mlflow: int
    serving: int
    ec2: int | None = None

    @property
    def by_server(self) -> dict[str, int]:
        """The ports that this stack has."""
        return {name: port for name, port in asdict(self).items() if port is not None}

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


class Reservations:
    """Ports that a start has chosen and that its servers do not listen on yet, which takes them half a minute.

    Another start of the same user, from another folder, must not choose them meanwhile. A reservation is a file lock,
    so it ends with the process that holds it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Nothing is reserved yet; the folder is shared by all installations of this user."""
        self._folder = folder or Path(tempfile.gettempdir()) / f"plimsoll-ports-{os.getuid()}"
        self._locks: list[IO[str]] = []

    def take(self, port: int) -> bool:
        """Reserve a port; False when a server listens on it or somebody else has reserved it."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        lock = (self._folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        if not is_free(port):
            lock.close()
            return False
        self._locks.append(lock)
        return True

    def release(self) -> None:
        """Give all reservations back: the servers listen now, or the start has failed."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()


def choose(settings: StackSettings, say: Callable[[str], None], take: Callable[[int], bool]) -> Ports:
    """Find a port for each server.

    Args:
        settings: Pinned ports.
        say: Takes the line that tells of another port than the wanted one.
        take: Takes a port if it can be had.

    Raises:
        StackError: A pinned port is in use, or no free one was found.
    """
    chosen: dict[str, int] = {}
    for name, wanted in (WANTED | EC2 if settings.ec2_double else WANTED).items():
        pinned = getattr(settings, f"port_{name}")
        chosen[name] = port = _pinned(name, pinned, take) if pinned else _next_free(name, wanted, take)
        if port != (pinned or wanted):
            say(f"Port {wanted} is in use: {name} takes {port}.")
    return Ports(**chosen)


def _pinned(name: str, port: int, take: Callable[[int], bool]) -> int:
    if not take(port):
        raise StackError(
            f"Port {port} is in use, and PLIMSOLL_PORT_{name.upper()} asks for it: end the program that uses it, "
            "choose another port, or leave the setting out."
        )
    return port


def _next_free(name: str, wanted: int, take: Callable[[int], bool]) -> int:
    for port in range(wanted, wanted + _TRIES):
        if take(port):
            return port
    raise StackError(f"No free port for {name} between {wanted} and {wanted + _TRIES - 1}.")


def strangers(ports: Ports, root_pid: int) -> list[str]:
    """Servers of ours whose port a program that does not descend from a process listens on.

    A port that was free a second ago may have been taken by another program, which would then answer in our place.
    """
    taken = {name: port for name, port in ports.by_server.items() if not is_free(port)}
    ours = _listening(root_pid) if taken else set()
    return [f"{name} (port {port})" for name, port in taken.items() if port not in ours]


def _listening(root_pid: int) -> set[int]:
    """TCP ports that the descendants of a process listen on."""
    try:
        family = psutil.Process(root_pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return set()
    found: set[int] = set()
    for process in family:
        try:
            connections = process.net_connections(kind="tcp4")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        found |= {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}
    return found
