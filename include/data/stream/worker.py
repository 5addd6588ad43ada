"""``python -m include.data.stream.worker``: fills batches for the process that started it.

Orders come as lines of JSON on standard input, answers go as lines to standard output; batches stand in memory that
both processes have. The process is started afresh, never forked: the object store must not be used after a fork. It
ends when its input ends, whatever it is doing, so nothing stays behind when its parent is killed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable
from queue import SimpleQueue
from typing import IO, Any, NoReturn

from include.core.errors import UserError
from include.core.json_codec import from_json
from include.data.stream.loading import BatchLoader, StreamPlan
from include.data.stream.slots import Slots


class Orders:
    """What the parent wants, and from which run of batches it wants nothing more."""

    def __init__(self) -> None:
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._forgotten = -1

    def listen(self, source: Iterable[bytes]) -> None:
        """Take up lines until there are no more; ``forget`` overtakes the orders that wait."""
        for line in source:
            if line.startswith(b'{"forget"'):
                self._forgotten = json.loads(line)["forget"]
            else:
                self._lines.put(line)

    def next(self) -> dict[str, Any]:
        """The next order; waits for it."""
        order: dict[str, Any] = json.loads(self._lines.get())
        return order

    def is_wanted(self, order: dict[str, Any]) -> bool:
        """Whether the parent still waits for more than the answer."""
        return bool(order["run"] > self._forgotten)


def serve(orders: Orders, answers: IO[bytes]) -> NoReturn:
    """Fill batches for ever."""
    setup = orders.next()
    loader = BatchLoader(plan=from_json(StreamPlan, setup["plan"]))
    slots = Slots(loader.plan.format, rows=setup["rows"], count=setup["slots"])
    slots.attach(setup["descriptor"])
    told = 0
    while True:
        order = orders.next()
        answer = _fill(loader, slots, order) if orders.is_wanted(order) else {}
        if len(loader.skipped) > told:
            told, answer["skipped"] = len(loader.skipped), loader.skipped
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _fill(loader: BatchLoader, slots: Slots, order: dict[str, int]) -> dict[str, Any]:
    inputs, targets = slots.view(order["slot"], order["end"] - order["begin"])
    try:
        loader.load(epoch=order["epoch"], begin=order["begin"], end=order["end"], inputs=inputs, targets=targets)
    except UserError as error:
        return {"bad_data": str(error)}
    except Exception as error:  # noqa: BLE001 - the boundary of the process: every failure becomes an answer
        return {"failed": f"{type(error).__name__}: {error}"}
    return {}


def _listen(orders: Orders) -> NoReturn:
    orders.listen(sys.stdin.buffer)
    os._exit(0)


def main() -> None:
    """Serve standard input."""
    # These reach the whole group of processes; the parent decides what they mean, and may need more batches until then.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    orders = Orders()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    # What libraries print must not look like an answer.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(orders, answers)
    except BrokenPipeError:
        # The parent is gone.
        os._exit(0)


if __name__ == "__main__":
    main()
