"""What the double remembers of an instance and of the answer to a token."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any


class InstanceState(StrEnum):
    """States of EC2, in the order of a life."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"
    STOPPING = "stopping"
    STOPPED = "stopped"


STATE_CODES = {
    InstanceState.PENDING: 0,
    InstanceState.RUNNING: 16,
    InstanceState.SHUTTING_DOWN: 32,
    InstanceState.TERMINATED: 48,
    InstanceState.STOPPING: 64,
    InstanceState.STOPPED: 80,
}
# Holds capacity and quota.
LIVE = frozenset({InstanceState.PENDING, InstanceState.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReason:
    """Why an instance ended, as EC2 words it.

    Attributes:
        code: ``StateReason.Code``.
        message: ``StateReason.Message`` after the code.
        transition: ``StateTransitionReason`` without the date; empty where EC2 gives none.
    """

    code: str
    message: str
    transition: str


USER_ENDED = EndReason(
    code="Client.UserInitiatedShutdown", message="User initiated shutdown", transition="User initiated"
)
SELF_ENDED = EndReason(code="Client.InstanceInitiatedShutdown", message="Instance initiated shutdown", transition="")
SPOT_ENDED = EndReason(
    code="Server.SpotInstanceTermination",
    message="Spot instance termination",
    transition="Service initiated",
)


@dataclass(slots=True, kw_only=True)
class Instance:
    """One instance.

    Attributes:
        instance_id: Id.
        region: Region.
        zone: Availability zone.
        instance_type: Type.
        purchase: ``spot`` or ``on-demand``.
        usd_per_h: Price at launch, None where nobody knows one.
        launched_at: When it was launched.
        boots_at: When it is running.
        launch: Parameters of the launch after the launch template was merged in, as RunInstances has them.
        tags: Tags.
        reservation_id: Reservation.
        subnet_id: Subnet.
        address: Private address.
        public_address: Public address, None for none.
        fleet_id: Fleet that made it.
        spot_request_id: Spot request that made it.
        volume_ids: Volumes made with it.
        state: Where it is in its life.
        running_at: When it began to run.
        ending_at: When it began to shut down or to stop.
        ends_at: When that is over.
        ended_at: When it was over.
        reason: Why it ended.
        notice_at: When a notice was given.
        reclaimed_at: When the notice is over.
        advised_at: When a rebalance was recommended.
        protected: Whether the API may not terminate it.
        spot_number: The how-manieth spot instance of the account it is, from 1; None on demand.
    """

    instance_id: str
    region: str
    zone: str
    instance_type: str
    purchase: str
    usd_per_h: Decimal | None
    launched_at: datetime
    boots_at: datetime
    launch: Mapping[str, Any]
    tags: dict[str, str]
    reservation_id: str
    subnet_id: str
    address: str
    public_address: str | None = None
    fleet_id: str | None = None
    spot_request_id: str | None = None
    volume_ids: list[str] = field(default_factory=list)
    state: InstanceState = InstanceState.PENDING
    running_at: datetime | None = None
    ending_at: datetime | None = None
    ends_at: datetime | None = None
    ended_at: datetime | None = None
    reason: EndReason | None = None
    notice_at: datetime | None = None
    reclaimed_at: datetime | None = None
    advised_at: datetime | None = None
    protected: bool = False
    spot_number: int | None = None

    @property
    def user_data(self) -> str:
        """User data as text, empty for none."""
        return base64.b64decode(self.launch.get("UserData") or "").decode()

    @property
    def is_live(self) -> bool:
        """Whether it is pending or running."""
        return self.state in LIVE
