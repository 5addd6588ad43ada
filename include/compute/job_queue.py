"""The queue of a lease: tickets that wait, claimed by create-if-absent."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from include.compute.lease_keys import LeaseKeys
from include.compute.store_link import StoreLink
from include.core.contracts.lease import JobTicket
from include.core.json_codec import from_json

_log = logging.getLogger("plimsoll.agent")


class JobQueue:
    """Hands out each ticket once.

    Args:
        keys: Keys of the lease.
        link: The store.
        owner: Identity document of the agent, written into claims.
    """

    def __init__(self, *, keys: LeaseKeys, link: StoreLink, owner: dict[str, Any]) -> None:
        self._keys = keys
        self._link = link
        self._owner = owner
        self._handled: set[str] = set()

    def take(self) -> JobTicket | None:
        """Claim the next ticket, in order of name; None when nothing waits."""
        for name in self._link.names(self._keys.queue):
            if name in self._handled or not self._claim(name):
                continue
            ticket = self._read(name)
            if ticket is not None:
                return ticket
        return None

    def _claim(self, name: str) -> bool:
        key = self._keys.claim(name)
        # A claim of our own that we do not remember: the write arrived although its answer did not.
        if not self._link.claim(key, self._owner) and self._link.get_json(key) != self._owner:
            return False
        self._handled.add(name)
        return True

    def _read(self, name: str) -> JobTicket | None:
        value = self._link.get_json(self._keys.ticket(name))
        try:
            ticket = from_json(JobTicket, value)
        except ValidationError as error:
            _log.error("unreadable ticket %s, left alone: %s", name, error)
            return None
        if ticket.name != name:
            _log.error("ticket %s calls itself %s, left alone", name, ticket.name)
            return None
        return ticket
