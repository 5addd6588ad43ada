"""The limits of a workload against a prediction. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from include.config.workload import LimitsSection
from include.core.contracts.plan import Prediction
from include.sizing.assumptions import HOUR_S


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


def _round_up(value: float) -> float:
    """Round up to three significant digits, so that the advice is enough."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / unit) * unit


def violations(prediction: Prediction, limits: LimitsSection) -> tuple[Violation, ...]:
    """All limits that a prediction does not keep."""
    hours = None if prediction.time_s is None else prediction.time_s / HOUR_S
    pairs = (
        ("limits.deadline_h", limits.deadline_h, hours),
        ("limits.budget_usd", limits.budget_usd, prediction.usd),
        ("limits.max_gco2e", limits.max_gco2e, prediction.gco2e),
    )
    return tuple(
        Violation(key=key, allowed=allowed, found=found)
        for key, allowed, found in pairs
        if allowed is not None and (found is None or found > allowed)
    )
