"""The engine port: where leases live. Every engine passes the same test suite (tests/include/compute/)."""

from __future__ import annotations

from typing import Any, Protocol

from include.core.contracts.demand import Demand
from include.core.contracts.lease import JobState, JobTicket, LaunchRequest, Lease, ReleaseReport
from include.core.contracts.offer import Offer


class Engine(Protocol):
    """Launches, watches and ends leases; runs jobs on them."""

    name: str

    def offers(self, demand: Demand | None) -> tuple[Offer, ...]:
        """What this engine could launch, with prices."""
        ...

    def launch(self, request: LaunchRequest) -> Lease:
        """Launch a lease; idempotent by ``request.lease_id``. Never waits for capacity.

        Raises:
            GroupClosedError: The lease was told to stop; it is never launched again.
            NoCapacityError: None of the candidates can be had now. Nothing runs and nothing is billed; the same request
                may be launched again later.
            LaunchRefusedError: The provider refuses for a reason that no waiting mends.
        """
        ...

    def describe(self, lease_id: str) -> Lease:
        """State of one lease. A lease nobody has heard of is STARTING until its launch is found dead."""
        ...

    def submit(self, lease_id: str, ticket: JobTicket, request: dict[str, Any]) -> None:
        """Write the request and queue the job; idempotent by ``ticket.name``."""
        ...

    def poll(self, lease_id: str, base: str) -> JobState:
        """Where one attempt stands: result first, then its heartbeat, then whether the agent lives."""
        ...

    def stop(self, lease_id: str, *, reason: str) -> str:
        """End one lease and everything it runs; returns how it ended. Idempotent."""
        ...

    def release(self, group_id: str) -> ReleaseReport:
        """End every lease of a group, found by tag. Idempotent."""
        ...

    def find(self, *, group_id: str | None = None) -> tuple[Lease, ...]:
        """Leases by tag, whatever their state; None finds all of this installation."""
        ...
