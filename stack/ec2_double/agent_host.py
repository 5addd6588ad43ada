"""Agents as processes: what runs inside the double's instances on this machine.

The boot script of the user data is never run. What it promises is kept here: it arms a dead man's switch, starts the
agent with the environment that it names, and shuts the machine down when the agent ends.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from include.compute.ec2.user_data import AgentConfiguration, agent_configuration
from include.compute.environment import allowed_environment
from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import ENDPOINT_VARIABLE
from include.config.settings import REPO
from include.core.json_file import write_json
from include.core.process import ProcessIdentity, identify, is_alive, kill_tree
from stack.ec2_double.records import Instance

_log = logging.getLogger("plimsoll.ec2_double")

AGENT_COMMAND = (sys.executable, "-m", "include.compute.agent")
# By this variable everything that runs on an instance is found, also what has lost its parents.
INSTANCE_VARIABLE = "PLIMSOLL_EC2_DOUBLE_INSTANCE"
# An agent gives its job 8 s; whoever ends the double waits some seconds longer than this before it kills.
_CLOSE_GRACE_S = 9.0
_IDENTITY = "process.json"
_LOOK_EVERY_S = 0.05
_GONE_WITHIN_S = 5.0


@dataclass(slots=True, kw_only=True)
class _Host:
    """One instance that runs an agent."""

    process: subprocess.Popen[bytes]
    identity: ProcessIdentity | None
    emulator: MetadataEmulator
    alive_file: Path
    dead_man_s: float
    left_at: datetime | None = None


class AgentHost:
    """Runs the agents of instances as processes of this machine, each in a session of its own.

    Args:
        root: Folder of the instances' work folders.
        environment: Further variables of every agent, such as the endpoint of a bucket; they stand above the
            configuration's.
        command: Program of the agent; the lease id is appended.
        dead_man_s: Seconds of the dead man's switch; None takes those of the configuration.
    """

    def __init__(
        self,
        root: Path,
        *,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = AGENT_COMMAND,
        dead_man_s: float | None = None,
    ) -> None:
        self._root = root
        self._environment = dict(environment or {})
        self._command = tuple(command)
        self._dead_man_s = dead_man_s
        self._hosts: dict[str, _Host] = {}

    @property
    def pids(self) -> Mapping[str, int]:
        """Process of the agent by instance."""
        return {instance_id: host.process.pid for instance_id, host in self._hosts.items()}

    def start(self, instance: Instance, *, at: datetime) -> None:  # noqa: ARG002 - part of the port
        """Start the agent that the user data names; an instance without one idles, as it would on EC2."""
        try:
            configuration = agent_configuration(instance.user_data)
        except ValueError:
            _log.info("%s has no agent in its user data and idles", instance.instance_id)
            return
        folder = self._root / instance.instance_id
        folder.mkdir(parents=True, exist_ok=True)
        alive_file = folder / "alive"
        alive_file.touch()
        emulator = MetadataEmulator(_facts(instance))
        emulator.start()
        process = self._spawn(instance, configuration, folder=folder, endpoint=emulator.url)
        identity = identify(process.pid)
        if identity is not None:
            write_json(folder / _IDENTITY, identity.to_json())
        self._hosts[instance.instance_id] = _Host(
            process=process,
            identity=identity,
            emulator=emulator,
            alive_file=alive_file,
            dead_man_s=configuration.dead_man_s if self._dead_man_s is None else self._dead_man_s,
        )
        if instance.reclaimed_at is not None:  # the notice came while it booted
            emulator.announce(_seconds_to(instance.reclaimed_at))

    def _spawn(
        self, instance: Instance, configuration: AgentConfiguration, *, folder: Path, endpoint: str
    ) -> subprocess.Popen[bytes]:
        inherited = allowed_environment(os.environ)
        environment = {
            **{name: value for name, value in inherited.items() if not name.startswith(("AWS_", "PLIMSOLL_"))},
            "PYTHONPATH": str(REPO),
            **configuration.environment,
            "PLIMSOLL_WORK_ROOT": str(folder),
            "PLIMSOLL_ALIVE_FILE": str(folder / "alive"),
            ENDPOINT_VARIABLE: endpoint,
            **self._environment,
            INSTANCE_VARIABLE: instance.instance_id,
        }
        with (folder / "agent.out").open("ab") as output:
            return subprocess.Popen(
                [*self._command, configuration.lease_id],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def advise(self, instance: Instance, *, at: datetime) -> None:  # noqa: ARG002 - part of the port
        """Show the recommendation in the instance's metadata."""
        if host := self._hosts.get(instance.instance_id):
            host.emulator.recommend_rebalance()

    def notice(self, instance: Instance, *, at: datetime, until: datetime) -> None:  # noqa: ARG002 - part of the port
        """Show the notice in the instance's metadata."""
        if host := self._hosts.get(instance.instance_id):
            host.emulator.announce(_seconds_to(until))

    def shut_down(self, instance: Instance, *, at: datetime) -> None:  # noqa: ARG002 - part of the port
        """Tell the agent to end."""
        host = self._hosts.get(instance.instance_id)
        if host is not None and host.identity is not None and is_alive(host.identity):
            host.process.send_signal(signal.SIGTERM)

    def power_off(self, instance: Instance, *, at: datetime) -> None:  # noqa: ARG002 - part of the port
        """Kill all that runs on the instance."""
        host = self._hosts.pop(instance.instance_id, None)
        if host is not None:
            self._end(instance.instance_id, host)

    def _end(self, instance_id: str, host: _Host) -> None:
        if host.identity is not None:
            kill_tree(host.identity)
        kill_strays(instance_id)
        with suppress(subprocess.TimeoutExpired):
            host.process.wait(_GONE_WITHIN_S)
        host.emulator.stop()
        (self._root / instance_id / _IDENTITY).unlink(missing_ok=True)

    def left_at(self, instance: Instance, *, now: datetime) -> datetime | None:
        """When the agent's process ended or the dead man struck; first seen counts."""
        host = self._hosts.get(instance.instance_id)
        if host is None:
            return None
        if host.left_at is None and (host.process.poll() is not None or self._is_silent(host)):
            host.left_at = now
        return host.left_at

    def _is_silent(self, host: _Host) -> bool:
        try:
            touched = host.alive_file.stat().st_mtime
        except FileNotFoundError:
            return False  # a folder that was cleared says nothing
        return time.time() - touched > host.dead_man_s

    def end_leftovers(self) -> int:
        """Kill the agents of a double that used the same folder and was killed itself; returns how many there were.

        Their instances are gone with that double, so nobody else would ever end them.
        """
        count = 0
        for path in self._root.glob(f"*/{_IDENTITY}"):
            if path.parent.name in self._hosts:
                continue
            identity = ProcessIdentity.from_json(json.loads(path.read_text(encoding="utf-8")))
            count += is_alive(identity)
            kill_tree(identity)
            kill_strays(path.parent.name)
            path.unlink()
        return count

    def close(self) -> None:
        """End every agent: by a signal first, then by force."""
        for host in self._hosts.values():
            if host.identity is not None and is_alive(host.identity):
                host.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _CLOSE_GRACE_S
        while time.monotonic() < deadline and any(host.process.poll() is None for host in self._hosts.values()):
            time.sleep(_LOOK_EVERY_S)
        for instance_id, host in list(self._hosts.items()):
            self._end(instance_id, host)
        self._hosts.clear()


def kill_strays(instance_id: str) -> int:
    """Kill what an instance has started and what has lost its parents since; returns how many processes.

    They are found by a variable in their environment that holds the instance's id, which no two instances share.
    """
    count = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(INSTANCE_VARIABLE) == instance_id:
                process.kill()
                count += 1
    return count


def _seconds_to(moment: datetime) -> float:
    return max((moment - datetime.now(UTC)) / timedelta(seconds=1), 0.0)


def _facts(instance: Instance) -> InstanceFacts:
    return InstanceFacts(
        instance_id=instance.instance_id,
        instance_type=instance.instance_type,
        life_cycle=instance.purchase,
        region=instance.region,
        zone=instance.zone,
    )
