"""Starting and ending agents as detached processes of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from include.compute.environment import allowed_environment
from include.compute.imds_client import ENDPOINT_VARIABLE
from include.config.settings import REPO, Settings
from include.core.errors import UserError
from include.core.process import ProcessIdentity, is_alive, kill_tree

# An agent needs next to nothing, but a job that starts on a full disk fails late and in obscure ways.
LEAST_FREE_BYTES = 256 * 1024**2


def prepare_folder(folder: Path) -> None:
    """Make the work folder of a lease.

    Raises:
        UserError: It cannot be made or written, or the disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise UserError(
            "the work folder cannot be made", where=str(folder), found=str(error), todo="set PLIMSOLL_WORK_ROOT"
        ) from error
    if not writable:
        raise UserError("the work folder cannot be written", where=str(folder), todo="set PLIMSOLL_WORK_ROOT")
    if free < LEAST_FREE_BYTES:
        raise UserError(
            "the disk is full",
            where=str(folder),
            found=f"{free // 1024**2} MiB free",
            allowed=f"at least {LEAST_FREE_BYTES // 1024**2} MiB",
            todo="free space, or set PLIMSOLL_WORK_ROOT to another disk",
        )


def agent_environment(settings: Settings) -> dict[str, str]:
    """Allow-listed variables of this process, the settings, and where the code is."""
    environment = allowed_environment(os.environ) | settings.to_environment()
    others = [part for part in environment.get("PYTHONPATH", "").split(":") if part and part != str(REPO)]
    return environment | {"PYTHONPATH": ":".join([str(REPO), *others]), "PYTHONUNBUFFERED": "1"}


def spawn_agent(*, lease_id: str, folder: Path, command: Sequence[str], settings: Settings) -> subprocess.Popen[bytes]:
    """Start an agent in a session of its own, with its output in ``<folder>/agent.out``.

    Raises:
        OSError: The process or its output file could not be made.
    """
    environment = agent_environment(settings)
    emulate = () if environment.get(ENDPOINT_VARIABLE) else ("--emulate-metadata",)
    with (folder / "agent.out").open("ab") as output:
        return subprocess.Popen(
            [*command, lease_id, *emulate],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill_and_wait(identities: Iterable[ProcessIdentity], *, within_s: float = 5.0) -> None:
    """SIGKILL processes with their trees and wait until they are gone, or the time is over."""
    alive = set(identities)
    for identity in alive:
        kill_tree(identity)
    deadline = time.monotonic() + within_s
    while alive and time.monotonic() < deadline:
        alive = {identity for identity in alive if is_alive(identity)}
        time.sleep(0.02)


def clear_folder(folder: Path) -> None:
    """Remove the job folders a killed agent left behind; its own output stays for diagnosis."""
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
