"""Which candidate of a launch an instance came from: one answer for agent and engine, so that both pay alike."""

from __future__ import annotations

from collections.abc import Iterable

from include.core.contracts.lease import LaunchCandidate
from include.core.contracts.offer import PurchaseOption


def launched_candidate(
    candidates: Iterable[LaunchCandidate],
    *,
    instance_type: str | None,
    spot: bool,
    region: str | None,
    zone: str | None,
) -> LaunchCandidate | None:
    """The candidate by type, market and place; one of the instance's own zone goes before one of any zone.

    Args:
        candidates: What was asked for.
        instance_type: Type of the instance.
        spot: Whether it is a spot instance. It does not know of reservations and savings plans: else it is on demand.
        region: Its region.
        zone: Its zone.

    Returns:
        None where no candidate fits.
    """
    fitting = [
        each
        for each in candidates
        if each.instance_type == instance_type
        and (each.purchase == PurchaseOption.SPOT) == spot
        and each.region in {"", region}
        and each.zone in {None, zone}
    ]
    return min(fitting, key=lambda each: each.zone is None, default=None)
