"""Which pools of an instant fleet give which instances: the strategies of EC2 Fleet over types and zones.

Capacity-optimized strategies take the pool with the most room here; EC2 knows more of its pools than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.errors import AwsError
from stack.ec2_double.faults import FLEET_LAUNCH
from stack.ec2_double.launching import LaunchOrder, launch, price_now, refusal, room
from stack.ec2_double.records import Instance

# A pool that is deeper than this is as good as any deeper one.
_DEEP = 20


@dataclass(slots=True, kw_only=True)
class Pool:
    """One type in one zone that a fleet may use.

    Attributes:
        order: What to launch.
        override: The override that it comes from, as it is shown.
        reference: Launch template of it, as it is shown.
        priority: Priority, the lowest number first; None comes last.
        instances: What was launched.
        error: Why (more) was not.
    """

    order: LaunchOrder
    override: Mapping[str, Any]
    reference: Mapping[str, Any]
    priority: float | None = None
    instances: list[Instance] = field(default_factory=list)
    error: AwsError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a fleet wants of one purchase option.

    Attributes:
        purchase: ``spot`` or ``on-demand``.
        count: Instances.
        strategy: Allocation strategy.
        least: With fewer instances than this nothing is launched.
        one_type: All of one type.
        one_zone: All in one zone.
    """

    purchase: str
    count: int
    strategy: str
    least: int = 0
    one_type: bool = False
    one_zone: bool = False


def allocate(account: Account, pools: Sequence[Pool], wish: Wish) -> None:
    """Launch what a fleet wants, as far as it can be had; instances and errors are noted at the pools."""
    if wish.count < 1:
        return
    for pool in pools:
        pool.error = _refused(account, pool)
    ordered = sorted((pool for pool in pools if pool.error is None), key=_order_of(account, wish))
    group = _group(account, ordered, wish)
    shares = _shares([_free(account, pool) for pool in group], wish)
    if sum(shares) < max(wish.least, 0):
        shares = [0] * len(group)
    for pool, share in zip(group, shares, strict=True):
        if share:
            pool.instances = launch(account, pool.order, count=share)
    if sum(shares) < wish.count:
        _note_shortage(group or ordered)


def _refused(account: Account, pool: Pool) -> AwsError | None:
    order = pool.order
    life = {
        "InstanceType": order.instance_type,
        "AvailabilityZone": order.zone,
        "SubnetId": pool.override.get("SubnetId", ""),
        "Lifecycle": order.purchase,
    }
    fault = account.faults.next(service="ec2", action=FLEET_LAUNCH, parameters=life)
    if fault is not None and fault.code:
        return AwsError(fault.code, fault.message)
    if account.faults.forbids("RunInstances"):
        return AwsError("UnauthorizedOperation", "You are not authorized to perform this operation.")
    return refusal(account, order)


def _free(account: Account, pool: Pool) -> int:
    return int(min(room(account, pool.order), _DEEP * _DEEP))


def _order_of(account: Account, wish: Wish) -> Callable[[Pool], tuple[float, ...]]:
    def price(pool: Pool) -> float:
        usd = price_now(account, pool.order)
        return math.inf if usd is None else float(usd)

    def shallow(pool: Pool) -> float:
        return -min(_free(account, pool), _DEEP)

    def priority(pool: Pool) -> float:
        return math.inf if pool.priority is None else pool.priority

    def too_small(pool: Pool) -> float:
        return float(_free(account, pool) < wish.count)

    keys: dict[str, Callable[[Pool], tuple[float, ...]]] = {
        "lowest-price": lambda pool: (price(pool),),
        "prioritized": lambda pool: (priority(pool),),
        "capacity-optimized": lambda pool: (shallow(pool),),
        "price-capacity-optimized": lambda pool: (too_small(pool), price(pool)),
        "capacity-optimized-prioritized": lambda pool: (too_small(pool), priority(pool)),
        "diversified": lambda _: (),
    }
    if wish.strategy not in keys:
        raise AwsError("InvalidParameterValue", f"Invalid value '{wish.strategy}' for AllocationStrategy.")
    return keys[wish.strategy]


def _group(account: Account, ordered: Sequence[Pool], wish: Wish) -> list[Pool]:
    """Pools that may be used together: the first group that has it all, else the one that has the most."""
    groups: dict[tuple[str, str], list[Pool]] = {}
    for pool in ordered:
        key = (pool.order.instance_type if wish.one_type else "", pool.order.zone if wish.one_zone else "")
        groups.setdefault(key, []).append(pool)
    if not groups:
        return []
    return max(groups.values(), key=lambda group: min(sum(_free(account, pool) for pool in group), wish.count))


def _shares(free: Sequence[int], wish: Wish) -> list[int]:
    if wish.strategy != "diversified":
        shares, left = [], wish.count
        for most in free:
            shares.append(min(most, left))
            left -= shares[-1]
        return shares
    shares = [0] * len(free)
    while sum(shares) < wish.count and any(share < most for share, most in zip(shares, free, strict=True)):
        for position, most in enumerate(free):
            if shares[position] < most and sum(shares) < wish.count:
                shares[position] += 1
    return shares


def _note_shortage(pools: Iterable[Pool]) -> None:
    for pool in pools:
        if pool.error is None:
            kind, zone = pool.order.instance_type, pool.order.zone
            pool.error = AwsError(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested ({zone}).",
            )
