"""How an instance changes its state, and what changes with it."""

from __future__ import annotations

from datetime import datetime, timedelta

from stack.ec2_double.account import Account
from stack.ec2_double.interfaces import release_interfaces
from stack.ec2_double.records import SPOT_ENDED, EndReason, Instance, InstanceState

_OVER = frozenset({InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED})


def begin_end(account: Account, instance: Instance, *, reason: EndReason, at: datetime, terminate: bool) -> bool:
    """Begin to terminate or stop an instance; what already ends, or has ended, stays as it is.

    Returns:
        Whether anything changed.
    """
    if instance.state in _OVER or (not terminate and not instance.is_live):
        return False
    was_stopped = instance.state is InstanceState.STOPPED
    if instance.is_live:
        # Billing ends here; what was stopped before is not billed any more.
        instance.ending_at = at
    instance.reason = reason
    instance.state = InstanceState.SHUTTING_DOWN if terminate else InstanceState.STOPPING
    instance.ends_at = at if was_stopped else at + timedelta(seconds=account.timing.shutdown_s)
    if terminate:
        _close_spot_request(account, instance, at=at)
    return True


def finish_end(account: Account, instance: Instance, *, at: datetime) -> None:
    """The end is over: the instance is stopped, or terminated with its volumes."""
    if instance.state is InstanceState.STOPPING:
        instance.state = InstanceState.STOPPED
        return
    instance.state = InstanceState.TERMINATED
    instance.ended_at = at
    account.counts["instances_ended"] += 1
    release_interfaces(account, instance)
    volumes = account.kind("volume")
    for volume_id in instance.volume_ids:
        volume = volumes.get(volume_id)
        if volume is None:
            continue
        if volume["Attachments"] and volume["Attachments"][0]["DeleteOnTermination"]:
            del volumes[volume_id]
        else:
            volume["State"], volume["Attachments"] = "available", []


def _close_spot_request(account: Account, instance: Instance, *, at: datetime) -> None:
    request = account.kind("spot-request").get(instance.spot_request_id or "")
    if request is None:
        return
    code = "instance-terminated-no-capacity" if instance.reason is SPOT_ENDED else "instance-terminated-by-user"
    request["State"] = "closed" if request["State"] == "active" else request["State"]
    request["Status"] = {"Code": code, "Message": code.replace("-", " "), "UpdateTime": at}
