"""Limits of a clean-up: a plan beyond them is refused as a whole, never cut to size."""

from __future__ import annotations

from dataclasses import dataclass

from include.core.errors import UserError
from include.storage.facts import CleanupPlan, count_bytes, count_objects


class CleanupRefusedError(UserError):
    """The plan exceeds a limit; nothing was touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupLimits:
    """How much may go at once.

    Attributes:
        max_objects: Objects moved and deleted.
        max_share: Share of the store's bytes outside the quarantine that may move to it, 0..1.
    """

    max_objects: int = 10_000
    max_share: float = 0.5


def check_limits(plan: CleanupPlan, limits: CleanupLimits) -> None:
    """Let a plan pass or refuse it.

    Raises:
        CleanupRefusedError: It exceeds a limit.
    """
    count = count_objects(plan.to_quarantine) + count_objects(plan.to_delete)
    if count > limits.max_objects:
        raise _refusal("max_objects", found=f"{count} objects", allowed=f"{limits.max_objects} objects")
    moving = count_bytes(plan.to_quarantine)
    if moving > limits.max_share * plan.total_bytes:
        raise _refusal(
            "max_share",
            found=f"{moving} of {plan.total_bytes} bytes ({moving / plan.total_bytes:.0%})",
            allowed=f"{limits.max_share:.0%}",
        )


def _refusal(name: str, *, found: str, allowed: str) -> CleanupRefusedError:
    return CleanupRefusedError(
        "the clean-up would remove too much at once, so it removes nothing",
        where=name,
        found=found,
        allowed=allowed,
        todo=f"read the plan; if it is right, run it again with a higher {name}",
    )
