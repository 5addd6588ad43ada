"""The double's own bill: per second from running to shutting down, at least a minute per instance.

EC2 bills Linux instances so; pending and shutting down are free. Moments count in whole seconds, as EC2 states them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from stack.ec2_double.records import Instance

LEAST_S = 60
_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledInstance:
    """One line of the bill.

    Attributes:
        instance_id: Instance.
        type: Type.
        purchase: ``spot`` or ``on-demand``.
        zone: Zone.
        usd_per_h: Price at launch, None where nobody knows one.
        running_at: When it began to run, None where it never did.
        shutting_at: When it began to shut down, None while it runs.
        seconds: Billed seconds; of one that runs, until now.
        usd: What it costs, exactly; None without a price.
    """

    instance_id: str
    type: str
    purchase: str
    zone: str
    usd_per_h: Decimal | None
    running_at: datetime | None
    shutting_at: datetime | None
    seconds: int
    usd: Decimal | None


def bill_of(instance: Instance, *, now: datetime) -> BilledInstance:
    """What one instance costs until now."""
    seconds = 0
    if instance.running_at is not None:
        end = instance.ending_at or now
        seconds = max(int(end.timestamp()) - int(instance.running_at.timestamp()), LEAST_S)
    usd = None if instance.usd_per_h is None else instance.usd_per_h * seconds / _HOUR_S
    return BilledInstance(
        instance_id=instance.instance_id,
        type=instance.instance_type,
        purchase=instance.purchase,
        zone=instance.zone,
        usd_per_h=instance.usd_per_h,
        running_at=instance.running_at,
        shutting_at=instance.ending_at,
        seconds=seconds,
        usd=usd,
    )
