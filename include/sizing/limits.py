"""The limits of a workload against a prediction. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from include.config.workload import ComputeSection, LimitsSection
from include.core.contracts.offer import Offer, PurchaseOption
from include.sizing.assumptions import HOUR_S

# Which of the cloud's quotas a family counts against: its letters, where they are not those of the quota itself.
_QUOTA_OF = {"gr": "g", "vt": "g"}
_OWN_QUOTA = ("p", "g", "inf", "trn", "dl", "f", "x", "u")
_STANDARD = "standard"
QUOTA_CLASSES = (*_OWN_QUOTA, _STANDARD)


class Figures(Protocol):
    """What is held against the limits."""

    @property
    def time_s(self) -> float | None:
        """Wall seconds."""

    @property
    def usd(self) -> float | None:
        """US dollars."""

    @property
    def gco2e(self) -> float | None:
        """Grams of CO2 equivalent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A limit that a prediction exceeds, or that cannot be checked.

    Attributes:
        key: Key path of the limit in the workload file.
        allowed: The limit.
        found: The prediction in the same unit, None where it is unknown.
    """

    key: str
    allowed: float
    found: float | None

    @property
    def excess(self) -> float:
        """How many times the limit the prediction is; infinite where it is unknown."""
        return math.inf if self.found is None else self.found / self.allowed

    @property
    def text(self) -> str:
        """The violation for people."""
        if self.found is None:
            return f"{self.key} {self.allowed:g} cannot be checked: the figure is unknown"
        return f"{self.key} is {self.allowed:g}, predicted {self.found:.3g}"

    @property
    def remedy(self) -> str:
        """Which limit to relax by how much."""
        if self.found is None:
            return f"remove {self.key}"
        enough = _round_up(self.found)
        return f"raise {self.key} from {self.allowed:g} to {enough:g} (+{enough - self.allowed:.3g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A limit on where a training may run that an offer does not keep.

    Attributes:
        text: The violation for people.
        remedy: What to relax.
    """

    text: str
    remedy: str


def _round_up(value: float) -> float:
    """Round up to three significant digits, so that the advice is enough."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / unit) * unit


def violations(figures: Figures, limits: LimitsSection) -> tuple[Violation, ...]:
    """All limits that a prediction does not keep."""
    hours = None if figures.time_s is None else figures.time_s / HOUR_S
    pairs = (
        ("limits.deadline_h", limits.deadline_h, hours),
        ("limits.budget_usd", limits.budget_usd, figures.usd),
        ("limits.max_gco2e", limits.max_gco2e, figures.gco2e),
    )
    return tuple(
        Violation(key=key, allowed=allowed, found=found)
        for key, allowed, found in pairs
        if allowed is not None and (found is None or found > allowed)
    )


def family_of(instance_type: str) -> str:
    """Family of an instance type: what stands before the dot.

    >>> family_of("p4de.24xlarge")
    'p4de'
    """
    return instance_type.partition(".")[0]


def quota_class(instance_type: str) -> str:
    """Which quota of the cloud a type counts against: ``p``, ``g``, ``inf``, ``trn``, ... or ``standard``."""
    letters = re.match(r"[a-z]*", instance_type)
    found = letters.group() if letters else ""
    found = _QUOTA_OF.get(found, found)
    return found if found in _OWN_QUOTA else _STANDARD


def bars(offer: Offer, compute: ComputeSection) -> tuple[Bar, ...]:
    """Limits on regions and families that an offer does not keep. This machine is exempt, own ones have no family."""
    if offer.engine == "local":
        return ()
    rented = offer.purchase is not PurchaseOption.LOCAL
    return tuple(
        Bar(
            text=f"{key} allows {', '.join(allowed)} and not {found}",
            remedy=f"add {found} to {key}",
        )
        for key, allowed, found in (
            ("compute.regions", compute.regions, offer.region),
            ("compute.families", compute.families if rented else (), family_of(offer.instance_type)),
        )
        if allowed and found not in allowed
    )


def quota_bar(offer: Offer, instances: int, quota: Mapping[str, int]) -> Bar | None:
    """The quota that so many instances exceed, None where they are within it or nobody passed one."""
    if offer.purchase is PurchaseOption.LOCAL or offer.engine == "local" or not quota:
        return None
    kind = quota_class(offer.instance_type)
    allowed, asked = quota.get(kind), instances * offer.vcpus
    if allowed is None or asked <= allowed:
        return None
    return Bar(
        text=f"quota of {kind} instances is {allowed} vCPUs, {instances} x {offer.instance_type} take {asked}",
        remedy=f"raise the quota of {kind} instances from {allowed} to {asked} vCPUs",
    )
