"""Mistakes in what the planner is asked that only a person can mend, one clear error each. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from include.carbon.intensity import load_intensities
from include.config.settings import Settings
from include.config.workload import LimitsSection, Workload
from include.core.contracts.offer import Offer
from include.core.errors import UserError
from include.sizing.assumptions import HOUR_S
from include.sizing.judging import ANY
from include.sizing.limits import family_of


def with_engine(workload: Workload, settings: Settings) -> Workload:
    """The workload with the installation's engine and region where it names none."""
    compute = workload.compute
    engine = compute.engine or settings.engine
    regions = compute.regions or ((settings.ec2_region,) if settings.engine == engine == "ec2" else ())
    return workload.model_copy(update={"compute": compute.model_copy(update={"engine": engine, "regions": regions})})


def own_engine(workload: Workload) -> str:
    """Engine that the workload runs on when nobody asks for another one."""
    return workload.compute.engine or "local"


def limits_from(limits: LimitsSection, *, now: datetime) -> LimitsSection:
    """The limits with the deadline as hours from now.

    Raises:
        UserError: The deadline has passed.
    """
    if limits.deadline is None:
        return limits
    left = (limits.deadline - now).total_seconds() / HOUR_S
    if left <= 0:
        raise UserError(
            "the deadline has passed",
            where="limits.deadline",
            found=f"{limits.deadline.isoformat()}, {-left:.3g} hours before {now.astimezone(UTC).isoformat()}",
            allowed="a moment in the future",
            todo="set a later deadline, or use limits.deadline_h for hours from the start",
        )
    within = left if limits.deadline_h is None else min(left, limits.deadline_h)
    return limits.model_copy(update={"deadline_h": within})


def check_question(workload: Workload, offers: Sequence[Offer], *, engine: str | None, now: datetime) -> LimitsSection:
    """Everything that can be refused before the data is looked at.

    Args:
        workload: The workload.
        offers: Everything on offer.
        engine: Engine that may launch, instead of the workload's.
        now: From when its deadline counts.

    Returns:
        The limits with the deadline as hours from now.

    Raises:
        UserError: The deadline has passed, or a region, an instance family or an engine is unknown.
    """
    own = own_engine(workload)
    check_places(workload, offers)
    check_engine(engine or own, offers, own=own)
    return limits_from(workload.limits, now=now)


def check_places(workload: Workload, offers: Sequence[Offer]) -> None:
    """Refuse regions and families that nobody offers.

    Raises:
        UserError: One of them is unknown.
    """
    regions = {offer.region for offer in offers} | set(load_intensities())
    _known("region", workload.compute.regions, regions, where="compute.regions")
    families = {family_of(offer.instance_type) for offer in offers}
    _known("instance family", workload.compute.families, families, where="compute.families")


def check_engine(engine: str, offers: Sequence[Offer], *, own: str) -> None:
    """Refuse an engine that no offer has.

    Raises:
        UserError: It is neither the workload's own, nor that of any offer.
    """
    _known("engine", (engine,), {ANY, own, *(offer.engine for offer in offers)}, where="engine")


def _known(what: str, asked: Iterable[str], known: set[str], *, where: str) -> None:
    for name in asked:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise UserError(
                f"unknown {what}",
                where=where,
                found=name,
                allowed=", ".join(sorted(known)) or "none: there are no offers",
                todo=f"did you mean {close[0]}?" if close else "",
            )
