"""Asks EC2 whether the instances of a silent lease still run: a reclaimed one is then known within seconds.

For triggers: the question runs in a thread, and whatever goes wrong with it is told once and otherwise ignored - the
silence itself has its own limit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from plimsoll.hooks.rented import Instances

_log = logging.getLogger(__name__)
# A heartbeat is late by so much before anybody is asked, and again between two questions.
SILENT_S = 5.0
_BETWEEN_S = 10.0
_GONE = ("shutting-down", "terminated", "stopping", "stopped")


async def gone_instance(region: str, ids: Sequence[str]) -> str:
    """The first of these instances that does not run any more, with its state; empty while all do."""
    from plimsoll.hooks.aws_clients import EngineClients, connection_credentials_async

    clients = EngineClients(region, credentials=await connection_credentials_async())
    return await asyncio.to_thread(lambda: _gone(clients.reading(), ids))


def _gone(client: Any, ids: Sequence[str]) -> str:
    answer = client.describe_instances(InstanceIds=list(ids))
    for reservation in answer["Reservations"]:
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] in _GONE:
                return f"{instance['InstanceId']} is {instance['State']['Name']}"
    return ""


class InstanceWatch:
    """The question for one lease, asked while its heartbeats stand still.

    Args:
        instances: What to ask for; None on a machine that EC2 knows nothing of.
    """

    def __init__(self, instances: Instances | None) -> None:
        self._instances = instances
        self._question: asyncio.Task[str] | None = None
        self._next = 0.0
        self._complained = False

    def look(self, *, silent_s: float) -> str:
        """Begin a question or fetch its answer, without waiting.

        Args:
            silent_s: How long nothing was heard of the lease.

        Returns:
            Which instance is gone, empty as far as is known.
        """
        if self._instances is None or silent_s < SILENT_S:
            return ""
        if self._question is not None and self._question.done():
            return self._answer(self._question)
        if self._question is None and time.monotonic() >= self._next:
            region, ids = self._instances["region"], self._instances["ids"]
            self._question = asyncio.create_task(gone_instance(region, ids))
        return ""

    def _answer(self, question: asyncio.Task[str]) -> str:
        self._question, self._next = None, time.monotonic() + _BETWEEN_S
        try:
            return question.result()
        except Exception as error:  # noqa: BLE001 - no answer is no answer, whatever the reason
            level = logging.DEBUG if self._complained else logging.WARNING
            _log.log(level, "EC2 cannot be asked for %s: %s", self._instances, type(error).__name__)
            self._complained = True
            return ""
