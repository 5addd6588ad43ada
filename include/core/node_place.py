"""One node's place in a job that runs on several: how an agent tells the job, through the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NODES = "PLIMSOLL_NODES"
RANK = "PLIMSOLL_NODE_RANK"
ADDRESS = "PLIMSOLL_NODE_ADDRESS"
RENDEZVOUS = "PLIMSOLL_RENDEZVOUS"
RENDEZVOUS_ID = "PLIMSOLL_RENDEZVOUS_ID"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """Where a node stands among those that run one attempt together.

    Attributes:
        nodes: How many there are.
        rank: This one's number, from 0. The first one serves the meeting point and tells how the attempt went.
        address: Address by which the others reach this one.
        rendezvous: ``host:port`` of the meeting point.
        rendezvous_id: Name of the attempt; nodes with the same one belong together.
    """

    nodes: int
    rank: int
    address: str
    rendezvous: str
    rendezvous_id: str

    def to_environment(self) -> dict[str, str]:
        """The variables that tell a job."""
        return {
            NODES: str(self.nodes),
            RANK: str(self.rank),
            ADDRESS: self.address,
            RENDEZVOUS: self.rendezvous,
            RENDEZVOUS_ID: self.rendezvous_id,
        }

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> NodePlace | None:
        """Read what `to_environment` wrote; None for a job on one node."""
        if int(environ.get(NODES) or 1) == 1:
            return None
        return cls(
            nodes=int(environ[NODES]),
            rank=int(environ[RANK]),
            address=environ[ADDRESS],
            rendezvous=environ[RENDEZVOUS],
            rendezvous_id=environ[RENDEZVOUS_ID],
        )

    def base_of(self, base: str) -> str:
        """Store prefix of this node's documents: the attempt's own for the first node, one below it for each other."""
        return base if self.rank == 0 else f"{base}/node-{self.rank}"
