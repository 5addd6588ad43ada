"""Time passes: instances boot, are reclaimed, shut themselves down and end. Events happen in their order in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from stack.ec2_double.account import Account
from stack.ec2_double.machines import Machines
from stack.ec2_double.market_file import Reclaim
from stack.ec2_double.records import SELF_ENDED, SPOT_ENDED, Instance, InstanceState
from stack.ec2_double.transitions import begin_end, finish_end

Event = tuple[datetime, Callable[[], None]]
_ENDING = frozenset({InstanceState.SHUTTING_DOWN, InstanceState.STOPPING})

_MICROSECONDS = 1_000_000


class Lifecycle:
    """Moves the instances of an account on.

    Args:
        account: The account.
        machines: What runs on the instances.
    """

    def __init__(self, account: Account, machines: Machines) -> None:
        self._account = account
        self._machines = machines
        self._seen_to = account.opened_at
        self._told: set[str] = set()
        self._spent_reclaims: set[int] = set()

    def advance(self) -> None:
        """Let happen what is due by now."""
        now = self._account.clock.now()
        while True:
            due = min(self._events(now), key=lambda event: event[0], default=None)
            if due is None:
                break
            due[1]()
        self._seen_to = max(now, self._seen_to)

    def _events(self, now: datetime) -> Iterator[Event]:
        if change := self._next_change(now):
            yield change
        for instance in self._account.instances.values():
            if instance.state is InstanceState.TERMINATED:
                continue
            yield from (event for event in self._of(instance, now) if event[0] <= now)

    def _of(self, instance: Instance, now: datetime) -> Iterator[Event]:
        if instance.state is InstanceState.PENDING:
            yield instance.boots_at, lambda: self._boot(instance)
        elif instance.state is InstanceState.RUNNING:
            left = self._machines.left_at(instance, now=now)
            if left is not None:
                yield left, lambda: self._leave(instance, left)
            if instance.reclaimed_at is not None:
                until = instance.reclaimed_at
                yield until, lambda: self._reclaim(instance, until)
            elif instance.advised_at is not None and self._account.market.rules.rebalance_lead_s is not None:
                at = instance.advised_at + timedelta(seconds=self._account.market.rules.rebalance_lead_s)
                yield at, lambda: self.give_notice(instance, at=at)
            yield from self._planned(instance)
        elif instance.state in _ENDING and instance.ends_at is not None:
            if instance.instance_id not in self._told:
                yield instance.ending_at or instance.ends_at, lambda: self._tell(instance)
            else:
                ends_at = instance.ends_at
                yield ends_at, lambda: self._finish(instance, ends_at)

    def _planned(self, instance: Instance) -> Iterator[Event]:
        """Reclaims that the market has planned for this spot instance."""
        for rule in self._account.market.rules.reclaims:
            if rule.nth == instance.spot_number and rule.nth not in self._spent_reclaims and instance.running_at:
                at = instance.running_at + timedelta(seconds=rule.after_s)
                yield at, partial(self._take_planned, instance, rule, at)

    def _take_planned(self, instance: Instance, rule: Reclaim, at: datetime) -> None:
        self._spent_reclaims.add(rule.nth)
        self.give_notice(instance, at=at, notice_s=rule.notice_s)

    def _next_change(self, now: datetime) -> Event | None:
        """The next moment at which capacity may have fallen below what runs."""
        if not any(found.is_live and found.purchase == "spot" for found in self._account.instances.values()):
            return None  # nobody can be taken away
        change_s = self._account.market.next_change_s(self._account.at_s(self._seen_to))
        if change_s is None:
            return None
        # Moments have whole microseconds: rounded down, a change between two of them would come again and again.
        at = self._account.opened_at + timedelta(microseconds=math.ceil(change_s * _MICROSECONDS))
        return (at, lambda: self._shrink(at)) if at <= now else None

    def _shrink(self, at: datetime) -> None:
        """Spot instances for which there is no capacity any more are taken away, the youngest first."""
        self._seen_to = at
        rules = self._account.market.rules
        crowded: dict[tuple[str, str], list[Instance]] = {}
        for instance in self._account.instances.values():
            if instance.is_live and instance.purchase == "spot" and instance.reclaimed_at is None:
                crowded.setdefault((instance.instance_type, instance.zone), []).append(instance)
        for (kind, zone), instances in crowded.items():
            most = self._account.market.capacity(
                instance_type=kind, purchase="spot", zone=zone, at_s=self._account.at_s(at)
            )
            for instance in instances[int(min(most, len(instances))) :]:
                if rules.rebalance_lead_s is None:
                    self.give_notice(instance, at=at)
                else:
                    self.advise(instance, at=at)

    def advise(self, instance: Instance, *, at: datetime) -> None:
        """Recommend a rebalance."""
        if instance.advised_at is None:
            instance.advised_at = at
            self._machines.advise(instance, at=at)

    def give_notice(self, instance: Instance, *, at: datetime, notice_s: float | None = None) -> None:
        """Announce that a spot instance is taken away; a second notice changes nothing."""
        if instance.reclaimed_at is not None or not instance.is_live:
            return
        seconds = self._account.market.rules.notice_s if notice_s is None else notice_s
        instance.notice_at, instance.reclaimed_at = at, at + timedelta(seconds=seconds)
        request = self._account.kind("spot-request").get(instance.spot_request_id or "")
        if request is not None:
            request["Status"] = {
                "Code": "marked-for-termination",
                "Message": "Your Spot Instance is marked for termination.",
                "UpdateTime": at,
            }
        self._machines.notice(instance, at=at, until=instance.reclaimed_at)

    def _boot(self, instance: Instance) -> None:
        instance.state = InstanceState.RUNNING
        instance.running_at = instance.boots_at
        self._machines.start(instance, at=instance.boots_at)

    def _leave(self, instance: Instance, at: datetime) -> None:
        """The operating system shut down: what follows is a matter of the instance's shutdown behaviour."""
        behaviour = instance.launch.get("InstanceInitiatedShutdownBehavior") or "stop"
        terminate = behaviour == "terminate" or instance.purchase == "spot"
        begin_end(self._account, instance, reason=SELF_ENDED, at=at, terminate=terminate)

    def _reclaim(self, instance: Instance, at: datetime) -> None:
        self._machines.power_off(instance, at=at)
        begin_end(self._account, instance, reason=SPOT_ENDED, at=at, terminate=True)

    def _tell(self, instance: Instance) -> None:
        self._told.add(instance.instance_id)
        self._machines.shut_down(instance, at=instance.ending_at or self._account.clock.now())

    def _finish(self, instance: Instance, at: datetime) -> None:
        self._machines.power_off(instance, at=at)
        finish_end(self._account, instance, at=at)
        if instance.state is InstanceState.STOPPED:
            self._told.discard(instance.instance_id)
