"""Store keys of one lease: the whole conversation between an engine, an agent and those who watch them."""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "leases"


@dataclass(frozen=True, slots=True)
class LeaseKeys:
    """Where the documents of a lease lie."""

    lease_id: str

    @property
    def prefix(self) -> str:
        """Everything of the lease lies below this."""
        return f"{ROOT}/{self.lease_id}"

    @property
    def spec(self) -> str:
        """The `LaunchRequest`; written once, by the engine."""
        return f"{self.prefix}/spec.json"

    @property
    def launching(self) -> str:
        """The process that is about to become the agent; only the local engine has one."""
        return f"{self.prefix}/launching.json"

    @property
    def owner(self) -> str:
        """The agent that won the lease; create-if-absent."""
        return f"{self.prefix}/owner.json"

    @property
    def heartbeat(self) -> str:
        """The latest `LeaseHeartbeat`."""
        return f"{self.prefix}/heartbeat.json"

    @property
    def stop(self) -> str:
        """Its presence tells the agent to leave and forbids another launch."""
        return f"{self.prefix}/stop.json"

    @property
    def queue(self) -> str:
        """Prefix of the `JobTicket` documents."""
        return f"{self.prefix}/queue"

    def ticket(self, name: str) -> str:
        """One queued job."""
        return f"{self.queue}/{name}"

    def node(self, rank: int) -> str:
        """The agent that won a rank of a lease with several instances; create-if-absent."""
        return f"{self.prefix}/nodes/{rank}.json"

    def beat_of(self, rank: int) -> str:
        """The latest `LeaseHeartbeat` of one node; that of the first is the lease's own."""
        return self.heartbeat if rank == 0 else f"{self.prefix}/node-beats/{rank}.json"

    @property
    def gang(self) -> str:
        """Prefix of the jobs that all nodes run together."""
        return f"{self.prefix}/gang"

    def gang_job(self, name: str) -> str:
        """One job of all nodes: its ticket and where they meet; written by the first one."""
        return f"{self.gang}/{name}.json"

    def gang_notice(self, name: str) -> str:
        """A notice that one node had while it ran that job, for all of them."""
        return f"{self.prefix}/gang-notices/{name}.json"

    def claim(self, name: str) -> str:
        """Create-if-absent mark that a queued job was taken."""
        return f"{self.prefix}/claims/{name}"


def lease_of(key: str) -> str:
    """Lease id of any key below the root."""
    return key.split("/")[1]
