"""How often an installation's own capacity was taken away."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """Attempts on one kind of rented capacity, taken together.

    Attributes:
        instance_type: Type of the instances.
        purchase: Purchase option by its word.
        interruptions: Attempts that ended because the capacity went away.
        hours: Hours that attempts ran, ended ones alone.
    """

    instance_type: str
    purchase: str
    interruptions: int
    hours: float
