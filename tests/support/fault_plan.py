"""What goes wrong in a random fault sequence on the side of EC2, drawn from its seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from include.compute.ec2.errors import _BY_CODE, Kind
from include.core.contracts.lease import LaunchCandidate
from stack.ec2_double import FLEET_LAUNCH, Fault, Market

REGION = "us-east-1"
TYPES = ("g5.xlarge", "g6.xlarge")
ZONES = ("a", "b", "c")
# Codes that end a launch for good are drawn less often than the others: most sequences shall get to a training.
ENDING = (Kind.AUTH, Kind.PARAMETER, Kind.QUOTA)
CODES = sorted(_BY_CODE)
CHANGING = ("CreateFleet", "TerminateInstances", "CreateLaunchTemplate")
READING = ("DescribeInstances", "DescribeLaunchTemplates", "DescribeImages", "DescribeVolumes")

Note = Callable[[str], None]


def make_market(chance: random.Random, note: Note) -> Market:
    """Gaps of capacity, and spot instances that are taken away."""
    capacity = []
    for _ in range(chance.choice((0, 0, 1, 3, 6))):
        since = float(chance.randint(0, 4000))
        rule = {
            "type": chance.choice((*TYPES, "*")),
            "purchase": chance.choice(("spot", "spot", "on-demand", "*")),
            "zone": chance.choice([f"{REGION}{zone}" for zone in ZONES] + ["*"]),
            "from_s": chance.choice((0.0, since)),
            "until_s": since + chance.randint(30, 2500),
            "instances": 0,
        }
        capacity.append(rule)
        note(f"no capacity: {rule}")
    reclaims = [
        {
            "nth": nth,
            "after_s": float(chance.randint(0, 1500)),
            "notice_s": chance.choice((0.0, 0.0, 20.0, 120.0)),
        }
        for nth in range(1, 7)
        if chance.random() < 0.35
    ]
    for reclaim in reclaims:
        note(f"reclaim: {reclaim}")
    return Market.of(
        capacity=capacity, reclaims=reclaims, rebalance_lead_s=chance.choice((None, None, 120.0)), types={}
    )


def make_rules(chance: random.Random, note: Note) -> list[Fault]:
    """What calls to EC2 meet: error codes, lost answers, delays, answers that cannot be read."""
    rules = []
    for _ in range(chance.choice((0, 1, 2, 4))):
        action = chance.choice((*CHANGING, FLEET_LAUNCH, FLEET_LAUNCH, "CreateFleet", *READING))
        kind = chance.choice(("code", "code", "lost", "after", "after-code", "delay", "throttle", "raw"))
        fields: dict[str, Any] = {
            "action": action,
            "skip": chance.choice((0, 0, 1, 2, 5, 20)),
            "times": chance.choice((1, 1, 2, 3, 6)),
        }
        if action == FLEET_LAUNCH:
            kind = "code"
        elif chance.random() < 0.8:
            fields["match"] = {"DryRun": ""}  # not the dry run that comes before the first launch
        code = chance.choice(CODES)
        if _BY_CODE[code] in ENDING and chance.random() < 0.7:
            code = "InsufficientInstanceCapacity" if action in ("CreateFleet", FLEET_LAUNCH) else "InternalError"
        fields |= {
            "code": {"code": code},
            "lost": {"lost": True},
            "after": {"after": True},
            "after-code": {"after": True, "code": chance.choice(("InternalError", "ServiceUnavailable"))},
            "delay": {"delay_s": chance.uniform(1, 90)},
            "throttle": {"code": "RequestLimitExceeded"},
            "raw": {"raw": "<html>502</html>", "status": 502},
        }[kind]
        rules.append(Fault.model_validate(fields))
        note(f"fault: {fields}")
    return rules


def make_candidates(chance: random.Random, market: Market) -> tuple[LaunchCandidate, ...]:
    """What may be launched, at the market's own prices."""
    found = []
    kinds = [(kind, purchase) for purchase in ("spot", "on-demand") for kind in TYPES]
    for kind, purchase in kinds:
        if purchase == "spot" and chance.random() < 0.15:
            continue
        zones = chance.choice((None, None, ZONES))
        for zone in zones or (None,):
            price = market.usd_per_h(instance_type=kind, purchase=purchase, zone=f"{REGION}{zone or 'a'}", at_s=0)
            found.append(
                LaunchCandidate(
                    instance_type=kind,
                    purchase=purchase,
                    region=REGION,
                    zone=zone and f"{REGION}{zone}",
                    usd_per_h=str(price),
                    list_usd_per_h="1.006",
                    vcpus=4,
                    accelerators=1,
                )
            )
    return tuple(found)
