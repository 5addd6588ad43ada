"""Spot or on-demand: one rule per criticality, stated in one sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from include.config.workload import Workload
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Criticality


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRule:
    """Which purchase options may be taken.

    Attributes:
        admissible: The options; `PurchaseOption.LOCAL` always, since this machine is no purchase.
        sentence: Which rule decided.
    """

    admissible: frozenset[PurchaseOption]
    sentence: str


def purchase_rule(workload: Workload, *, spot_fits: bool) -> PurchaseRule:
    """Decide the purchase options of a run.

    Args:
        workload: Its criticality, and ``compute.purchase`` when the user decided already.
        spot_fits: Whether some spot offer fits all limits, interruptions included.
    """
    asked, criticality = workload.compute.purchase, workload.criticality
    if asked != "auto":
        options, why = {PurchaseOption(asked)}, f"the workload asks for {asked}"
    elif criticality is Criticality.EXPLORATORY:
        options, why = {PurchaseOption.SPOT}, "exploratory: only spot, the run waits for it and yields first"
    elif criticality is Criticality.CRITICAL:
        options = {PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED}
        why = "critical: reserved or on-demand, no capacity that can be taken away"
    elif spot_fits:
        options, why = {PurchaseOption.SPOT}, "normal: spot, since the limits allow for its interruptions"
    else:
        options = {PurchaseOption.ON_DEMAND}
        why = "normal: on-demand, since no spot offer with a known price keeps the limits"
    return PurchaseRule(admissible=frozenset({*options, PurchaseOption.LOCAL}), sentence=why)
