"""The nodes of one lease: who is which, whether all of them live, and the jobs that they run together.

The first node has the lease's queue and tells how it goes; it publishes a job of all nodes with the place where they
meet. A lost node ends the job on all of them, and a notice on one of them reaches all.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from include.compute.departures import Departure
from include.compute.lease_keys import LeaseKeys
from include.compute.pace import Pace
from include.compute.store_link import StoreLink
from include.core.clock import Clock
from include.core.contracts.lease import JobTicket
from include.core.contracts.usage import Usage
from include.core.heartbeat import LeaseHeartbeat
from include.core.json_codec import from_json, to_json
from include.core.node_place import NodePlace
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.agent")
# Only a training is spread over nodes; whatever else a lease runs, its first node runs alone.
GANG_KINDS = frozenset({"train"})


def take_rank(store: ObjectStore, keys: LeaseKeys, *, instances: int, document: dict[str, Any]) -> int | None:
    """Claim a place in the lease for the agent of that document.

    Returns:
        Number of the node; None where all places are taken.
    """
    for rank in range(instances):
        # A lease of one instance has an owner and no nodes.
        if instances > 1 and not _claim(store, keys.node(rank), document):
            continue
        if rank == 0 and not _claim(store, keys.owner, document):
            return None
        return rank
    return None


def _claim(store: ObjectStore, key: str, document: dict[str, Any]) -> bool:
    # Equal content after a refusal: our own write arrived although its answer did not.
    return store.create_json(key, document) or store.get_json(key) == document


@dataclass(slots=True)
class _Peer:
    """What is known of another node; `changed_at` is by this node's own clock."""

    changed_at: float
    beat: LeaseHeartbeat | None = None


class Gang:
    """One node's view of the nodes of its lease.

    Args:
        rank: This node.
        nodes: How many there are.
        address: Address by which the others reach this one.
        keys: Keys of the lease.
        link: The store.
        pace: Intervals and patience.
        clock: Source of time.
    """

    def __init__(
        self, *, rank: int, nodes: int, address: str, keys: LeaseKeys, link: StoreLink, pace: Pace, clock: Clock
    ) -> None:
        self._rank = rank
        self._nodes = nodes
        self._address = address
        self._keys = keys
        self._link = link
        self._pace = pace
        self._clock = clock
        watched = range(1, nodes) if rank == 0 else (0,)
        self._peers = {other: _Peer(clock.monotonic()) for other in watched}
        self._next_look = 0.0
        self._handled: set[str] = set()
        self._passed_on: set[tuple[str, str]] = set()

    def watch(self) -> None:
        """Look at the beats of the others about as often as they beat."""
        if self._clock.monotonic() < self._next_look:
            return
        self._next_look = self._clock.monotonic() + self._pace.beat_s
        for rank, peer in self._peers.items():
            value = self._link.get_json(self._keys.beat_of(rank))
            beat = None if value is None else from_json(LeaseHeartbeat, value)
            if beat is not None and (peer.beat is None or beat.sequence != peer.beat.sequence):
                peer.beat, peer.changed_at = beat, self._clock.monotonic()
            elif self._link.silent_s > 0:
                # Nobody can be heard now: silence of the store is judged elsewhere, and is not theirs.
                peer.changed_at = self._clock.monotonic()

    @property
    def complete(self) -> bool:
        """Whether every other node has beaten just now."""
        return all(
            peer.beat is not None and self._silence(peer) <= 3 * self._pace.beat_s for peer in self._peers.values()
        )

    def departure(self) -> Departure | None:
        """A reason to leave: without one of its nodes a lease is of no use."""
        for rank, peer in self._peers.items():
            if peer.beat is not None and peer.beat.state == "ended":
                return Departure(reason=peer.beat.reason or "node_lost")
            patience_s = self._pace.gather_s if peer.beat is None else self._pace.node_silence_s
            if self._silence(peer) > patience_s:
                _log.warning("node %d was silent for %.1f s", rank, self._silence(peer))
                return Departure(reason="node_lost")
        return None

    def usages(self) -> Sequence[Usage]:
        """Usage of the others, as far as they have told it."""
        beats = [peer.beat for peer in self._peers.values()]
        return [beat.usage for beat in beats if beat is not None and beat.usage is not None]

    def publish(self, ticket: JobTicket) -> NodePlace | None:
        """Tell all nodes to run a job, and where they meet; the first node does that.

        Returns:
            Its own place; None when the store did not take the document, so that nobody would come.
        """
        place = self._place(ticket, rendezvous=f"{self._address}:{_free_port(self._address)}")
        document = {"ticket": to_json(ticket), "rendezvous": place.rendezvous, "nodes": self._nodes}
        return place if self._link.put_json(self._keys.gang_job(ticket.name), document) else None

    def take(self) -> tuple[JobTicket, NodePlace] | None:
        """The next job that the first node has published; None when there is none."""
        for name in self._link.names(self._keys.gang):
            if name in self._handled or (document := self._link.get_json(f"{self._keys.gang}/{name}")) is None:
                continue
            self._handled.add(name)
            try:
                ticket = from_json(JobTicket, document["ticket"])
                return ticket, self._place(ticket, rendezvous=str(document["rendezvous"]))
            except (ValidationError, KeyError, TypeError) as error:
                _log.error("unreadable job of all nodes %s, left alone: %s", name, error)
        return None

    def pass_on(self, departure: Departure, ticket: JobTicket) -> None:
        """Tell all nodes that this one has a notice."""
        mark = (ticket.name, departure.reason)
        if mark in self._passed_on:
            return
        document = {**asdict(departure), "rank": self._rank}
        if self._link.put_json(self._keys.gang_notice(ticket.name), document):
            self._passed_on.add(mark)

    def heard(self, ticket: JobTicket) -> Departure | None:
        """The notice that another node had while it ran that job."""
        document = self._link.get_json(self._keys.gang_notice(ticket.name))
        if not isinstance(document, dict) or document.get("rank") == self._rank:
            return None
        return from_json(Departure, {name: value for name, value in document.items() if name != "rank"})

    def _place(self, ticket: JobTicket, *, rendezvous: str) -> NodePlace:
        return NodePlace(
            nodes=self._nodes,
            rank=self._rank,
            address=self._address,
            rendezvous=rendezvous,
            rendezvous_id=ticket.name,
        )

    def _silence(self, peer: _Peer) -> float:
        return self._clock.monotonic() - peer.changed_at


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
