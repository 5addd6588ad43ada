"""A function in a process of its own, with a time and a memory limit: for code of a user that is not known to end.

``python -m include.sizing.sandbox <folder>`` is that process. Order and answer are JSON files in the folder.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from include.core.errors import UserError
from include.core.json_file import write_json
from include.core.process import die_with_parent, identify, kill_tree

_PROGRAM = "include.sizing.sandbox"
_ORDER, _ANSWER = "order.json", "answer.json"
_LOOK_EVERY_S = 0.05
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What the process may take.

    Attributes:
        seconds: Wall time.
        memory_bytes: Resident memory of the process and all that it starts.
    """

    seconds: float
    memory_bytes: int


class SandboxFailedError(Exception):
    """The function failed by a mistake of the project, or its process was ended from outside."""


def run_limited(target: str, order: dict[str, Any], *, limits: SandboxLimits, folder: Path, where: str) -> Any:  # noqa: ANN401 - any JSON value
    """Run ``module:function`` on a JSON value in a fresh process and return its JSON value.

    Args:
        target: The function, of one argument.
        order: Its argument.
        limits: Time and memory.
        folder: Scratch folder.
        where: What the function works on, for messages.

    Raises:
        UserError: A limit was exceeded, or the function refused its order.
        SandboxFailedError: It failed otherwise.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="sandbox-") as name:
        write_json(Path(name) / _ORDER, {"target": target, "order": order})
        process = subprocess.Popen([sys.executable, "-m", _PROGRAM, name])
        try:
            _watch(process, limits, where)
        finally:
            identity = identify(process.pid) if process.returncode is None else None
            if identity is not None:
                kill_tree(identity)
            process.wait()
        return _answer(Path(name) / _ANSWER, process.returncode)


def _watch(process: subprocess.Popen[bytes], limits: SandboxLimits, where: str) -> None:
    started = time.monotonic()
    while True:
        try:
            process.wait(timeout=_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            _refuse_excess(process.pid, time.monotonic() - started, limits, where)
        else:
            return


def _refuse_excess(pid: int, spent_s: float, limits: SandboxLimits, where: str) -> None:
    if spent_s > limits.seconds:
        raise UserError(
            "building and tracing the model takes too long",
            where=where,
            found=f"no end after {spent_s:.0f} s, of which some went to the start of Python and its libraries",
            allowed=f"{limits.seconds:g} s",
            todo="look for a loop or a download in the factory, or raise PLIMSOLL_PROFILE_TIMEOUT_S",
        )
    taken = _resident_bytes(pid)
    if taken > limits.memory_bytes:
        raise UserError(
            "building and tracing the model takes too much memory",
            where=where,
            found=f"{taken / _GIB:.1f} GiB resident",
            allowed=f"{limits.memory_bytes / _GIB:.1f} GiB",
            todo="make tensors by torch alone, which take no memory here, or raise PLIMSOLL_PROFILE_MEMORY_BYTES",
        )


def _resident_bytes(pid: int) -> int:
    total = 0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def _answer(file: Path, code: int | None) -> Any:  # noqa: ANN401 - any JSON value
    if not file.exists():
        ended = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        raise SandboxFailedError(f"the process that traces the model left no answer: {ended}")
    answer = json.loads(file.read_text(encoding="utf-8"))
    if "refused" in answer:
        raise UserError(answer["refused"])
    if "failed" in answer:
        raise SandboxFailedError(answer["failed"])
    return answer["value"]


def _serve(folder: Path) -> None:
    asked = json.loads((folder / _ORDER).read_text(encoding="utf-8"))
    module, _, name = asked["target"].partition(":")
    try:
        answer = {"value": getattr(importlib.import_module(module), name)(asked["order"])}
    except UserError as error:
        answer = {"refused": str(error)}
    except Exception:  # noqa: BLE001 - the boundary of the process: every failure becomes an answer
        answer = {"failed": traceback.format_exc()}
    write_json(folder / _ANSWER, answer)


if __name__ == "__main__":
    die_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    _serve(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter teardown of torch costs more than a second, and a factory may have left threads behind.
    os._exit(0)
