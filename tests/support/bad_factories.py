"""What a model factory should not do, as functions that a sandbox runs in place of the tracer."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from include.core.errors import UserError


def doubles(order: dict[str, Any]) -> dict[str, Any]:
    return {"twice": 2 * order["number"]}


def refuses(_: dict[str, Any]) -> None:
    raise UserError("the factory refuses", where="model.factory")


def raises(_: dict[str, Any]) -> None:
    raise LookupError("no such layer")


def never_returns(_: dict[str, Any]) -> None:
    while True:
        time.sleep(0.05)


def takes_memory(_: dict[str, Any]) -> None:
    held = []
    while True:
        held.append(bytearray(64 * 2**20))
        time.sleep(0.02)


def ends_by_signal(_: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGABRT)


def leaves_a_child(order: dict[str, Any]) -> None:
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    with open(order["file"], "w") as out:  # noqa: PTH123 - one line
        out.write(str(child))
    never_returns({})
