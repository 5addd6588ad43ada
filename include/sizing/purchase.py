"""Spot or on-demand: one rule per criticality, stated in one sentence. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from include.config.workload import Workload
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Criticality

_STEADY = frozenset({PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRule:
    """Which purchase options may be taken.

    Attributes:
        admissible: The options; `PurchaseOption.LOCAL` always, since this machine is no purchase.
        sentence: Which rule decided.
    """

    admissible: frozenset[PurchaseOption]
    sentence: str


def purchase_rule(workload: Workload) -> PurchaseRule:
    """Decide the purchase options of a run.

    Args:
        workload: Its criticality, and ``compute.purchase`` when the user decided already.
    """
    asked, criticality = workload.compute.purchase, workload.criticality
    if asked != "auto":
        options, why = frozenset({PurchaseOption(asked)}), f"the workload asks for {asked}"
    elif workload.compute.recovery == "on-demand":
        options, why = _STEADY, "the workload recovers on demand: no capacity that can be taken away"
    elif criticality is Criticality.EXPLORATORY:
        options = frozenset({PurchaseOption.SPOT})
        why = "exploratory: only spot, the run waits for it and yields first"
    elif criticality is Criticality.CRITICAL:
        options, why = _STEADY, "critical: reserved or on-demand, no capacity that can be taken away"
    else:
        options = _STEADY | {PurchaseOption.SPOT}
        why = f"normal: whichever is best by {workload.compute.objective.value} with expected interruptions counted in"
    return PurchaseRule(admissible=options | {PurchaseOption.LOCAL}, sentence=why)
