"""One AWS account as the double remembers it. Methods here only keep books; what actions mean stands elsewhere."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from include.core.clock import Clock
from stack.ec2_double.errors import AwsError
from stack.ec2_double.faults import Faults
from stack.ec2_double.market import Market
from stack.ec2_double.records import Instance

_ID_DIGITS = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long EC2 takes.

    Attributes:
        boot_s: Seconds that an instance is pending.
        shutdown_s: Seconds that it is shutting down or stopping.
        visible_after_s: Seconds after a launch for which descriptions do not show the instance yet.
        remembered_s: Seconds that a terminated instance is still shown; about an hour on EC2.
    """

    boot_s: float = 2.0
    shutdown_s: float = 2.0
    visible_after_s: float = 0.0
    remembered_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was answered to a token.

    Attributes:
        parameters: Parameters of the request that had it.
        answer: The answer; for RunInstances the reservation's id alone, since instances are shown as they are now.
    """

    parameters: Mapping[str, str]
    answer: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Account:
    """State of one account.

    Attributes:
        account_id: Twelve digits.
        clock: Time.
        market: What can be had.
        faults: What goes wrong.
        timing: How long things take.
        opened_at: When the market opened.
        randomness: Source of ids.
        instances: Instances by id, oldest first.
        fleets: Fleets by id, as DescribeFleets shows them, with ``Region`` and ``InstanceIds``.
        templates: Launch templates by id, with ``Region`` and ``Versions``.
        things: Volumes, snapshots, addresses and spot requests by kind and id, as boto3 shows them, with ``Region``.
        told: Answers by region, action and token.
        started: Spot instances launched so far.
        counts: Calls by action, and ``instances_started`` and ``instances_ended``.
    """

    account_id: str
    clock: Clock
    market: Market
    faults: Faults
    timing: Timing
    opened_at: datetime
    randomness: random.Random
    instances: dict[str, Instance] = field(default_factory=dict)
    fleets: dict[str, dict[str, Any]] = field(default_factory=dict)
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    things: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    told: dict[tuple[str, str, str], Told] = field(default_factory=dict)
    started: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def new_id(self, prefix: str) -> str:
        """A new id such as ``i-0123456789abcdef0``."""
        return f"{prefix}-{self.randomness.getrandbits(_ID_DIGITS * 4):0{_ID_DIGITS}x}"

    def at_s(self, moment: datetime) -> float:
        """Seconds since the market opened."""
        return (moment - self.opened_at).total_seconds()

    def kind(self, name: str) -> dict[str, dict[str, Any]]:
        """Things of one kind by id: ``volume``, ``snapshot``, ``address``, ``spot-request``."""
        return self.things.setdefault(name, {})

    def instance(self, instance_id: str, *, region: str) -> Instance:
        """One instance.

        Raises:
            AwsError: There is none, or it is too new to be seen, or was forgotten.
        """
        if not instance_id.startswith("i-"):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}" (expecting "i-...")')
        found = self.instances.get(instance_id)
        if found is None or found.region != region or not self.shows(found):
            raise AwsError("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        return found

    def shows(self, instance: Instance) -> bool:
        """Whether descriptions show an instance now."""
        now = self.clock.now()
        if (now - instance.launched_at).total_seconds() < self.timing.visible_after_s:
            return False
        ended = instance.ended_at
        return ended is None or (now - ended).total_seconds() < self.timing.remembered_s

    def shown(self, region: str) -> Iterator[Instance]:
        """Instances that descriptions show."""
        return (found for found in self.instances.values() if found.region == region and self.shows(found))

    def live(self, *, region: str) -> list[Instance]:
        """Instances that are pending or running: what capacity and quotas count."""
        return [found for found in self.instances.values() if found.region == region and found.is_live]

    def occupied(self, *, instance_type: str, purchase: str, zone: str) -> list[Instance]:
        """Live instances of one kind in one zone, oldest first."""
        return [
            found
            for found in self.instances.values()
            if found.is_live
            and found.zone == zone
            and found.instance_type == instance_type
            and found.purchase == purchase
        ]

    def template(self, reference: Mapping[str, Any], *, region: str) -> dict[str, Any]:
        """Launch template by ``LaunchTemplateId`` or ``LaunchTemplateName``.

        Raises:
            AwsError: There is none.
        """
        wanted_id, wanted_name = reference.get("LaunchTemplateId"), reference.get("LaunchTemplateName")
        for found in self.templates.values():
            same = found["LaunchTemplateId"] == wanted_id if wanted_id else found["LaunchTemplateName"] == wanted_name
            if same and found["Region"] == region:
                return found
        if wanted_id:
            raise AwsError(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {wanted_id}, does not exist.",
            )
        raise AwsError(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {wanted_name}, does not exist.",
        )
