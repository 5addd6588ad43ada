"""The launch log of a lease: every launching call is written down before it is made, and its answer after.

``leases/<id>/launch/<nnn>.json`` holds the exact parameters and the token, ``<nnn>.answer.json`` what came of it; both
are create-if-absent. An intent without an answer is replayed, by whoever comes next, with the same parameters and the
same token, before anything else is launched; number n+1 begins only when the answer of n is that nothing runs. So at
most the last entry of a log stands for instances.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from include.compute.damage import read_contract
from include.compute.lease_keys import LeaseKeys
from include.core.clock import Clock, iso
from include.core.contracts.lease import LaunchRequest
from include.core.json_codec import to_json
from include.core.store import ObjectStore

_NAMESPACE = uuid.UUID("6f2b1d0e-6a53-4f0f-9a3c-5b0c9d1f7a2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchIntent:
    """One launching call that is about to be made.

    Attributes:
        number: Number of the call within the lease, from 1.
        token: EC2's idempotency token of the call.
        at: ISO time at which it was written.
        parameters: Parameters of the call, without the token.
        request: The launch request that it serves.
    """

    number: int
    token: str
    at: str
    parameters: dict[str, Any]
    request: LaunchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAnswer:
    """What came of a launching call.

    Attributes:
        number: Number of the call.
        at: ISO time at which it was written.
        instances: Ids of what runs for the lease; empty: nothing does.
        discarded: Ids of instances that came with it and are not wanted: too few of a gang.
        errors: EC2's error codes with what they were about, for people.
        fleet_id: EC2's id of the fleet, empty where no fleet was made.
    """

    number: int
    at: str
    instances: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()
    errors: tuple[dict[str, str], ...] = field(default=())
    fleet_id: str = ""


def token_of(*, installation: str, lease_id: str, number: int) -> str:
    """Token of one launching call: the same for every process that makes it, and of one installation alone."""
    return str(uuid.uuid5(_NAMESPACE, f"{installation}|{lease_id}|{number}"))


class LaunchLog:
    """The log of one lease.

    Args:
        store: The object store.
        lease_id: The lease.
        installation: Digest of the installation.
        clock: Source of the times that are written.
    """

    def __init__(self, *, store: ObjectStore, lease_id: str, installation: str, clock: Clock) -> None:
        self._store = store
        self._lease_id = lease_id
        self._installation = installation
        self._clock = clock
        self._prefix = f"{LeaseKeys(lease_id).prefix}/launch"

    def last(self) -> tuple[LaunchIntent | None, LaunchAnswer | None]:
        """The last intent and its answer; None where there is none."""
        number = max(self._numbers(), default=0)
        return (self._intent(number), self.answer_of(number)) if number else (None, None)

    def answer_of(self, number: int) -> LaunchAnswer | None:
        """The answer of one call."""
        return read_contract(self._store, self._answer_key(number), LaunchAnswer)

    def begin(self, *, number: int, parameters: Mapping[str, Any], request: LaunchRequest) -> LaunchIntent:
        """Write the intent of a call down.

        Returns:
            The intent of that number: another process's where that one was first.
        """
        intent = LaunchIntent(
            number=number,
            token=token_of(installation=self._installation, lease_id=self._lease_id, number=number),
            at=iso(self._clock.now()),
            parameters=dict(parameters),
            request=request,
        )
        if self._store.create_json(self._intent_key(number), to_json(intent)):
            return intent
        first = self._intent(number)
        assert first is not None
        return first

    def close(
        self,
        intent: LaunchIntent,
        *,
        instances: tuple[str, ...] = (),
        discarded: tuple[str, ...] = (),
        errors: tuple[dict[str, str], ...] = (),
        fleet_id: str = "",
    ) -> LaunchAnswer:
        """Write the answer of a call down.

        Returns:
            The answer that holds: another process's where that one was first.
        """
        answer = LaunchAnswer(
            number=intent.number,
            at=iso(self._clock.now()),
            instances=instances,
            discarded=discarded,
            errors=errors,
            fleet_id=fleet_id,
        )
        if self._store.create_json(self._answer_key(intent.number), to_json(answer)):
            return answer
        first = self.answer_of(intent.number)
        assert first is not None
        return first

    def _numbers(self) -> list[int]:
        names = (key.rpartition("/")[2].partition(".")[0] for key, _ in self._store.list(self._prefix))
        return [int(name) for name in names if name.isdecimal()]

    def _intent(self, number: int) -> LaunchIntent | None:
        return read_contract(self._store, self._intent_key(number), LaunchIntent)

    def _intent_key(self, number: int) -> str:
        return f"{self._prefix}/{number:03d}.json"

    def _answer_key(self, number: int) -> str:
        return f"{self._prefix}/{number:03d}.answer.json"
