"""From telemetry to a verdict: a pure function. No rule decides by utilisation alone; what is not measured is said."""

from __future__ import annotations

from collections.abc import Sequence

from include.core.contracts.diagnosis import Diagnosis, Finding, Slowness
from include.training.diagnosis_device import bandwidth_bound, batch_too_large, launch_bound, tensor_cores_idle
from include.training.diagnosis_evidence import Evidence, Missing, Rule, percent
from include.training.diagnosis_memory import near_out_of_memory, oversized
from include.training.diagnosis_pattern import scalloped
from include.training.diagnosis_waits import copy_bound, data_bound, save_stall, straggler
from include.training.telemetry.facts import RankTelemetry

# The order decides between findings whose loss of time is not known: a cause goes before a pattern that it explains,
# a danger before a waste.
RULES: dict[Slowness, Rule] = {
    Slowness.DATA_BOUND: data_bound,
    Slowness.COPY_BOUND: copy_bound,
    Slowness.SAVE_STALL: save_stall,
    Slowness.STRAGGLER: straggler,
    Slowness.NEAR_OUT_OF_MEMORY: near_out_of_memory,
    Slowness.BATCH_TOO_LARGE: batch_too_large,
    Slowness.SCALLOPED: scalloped,
    Slowness.BANDWIDTH_BOUND: bandwidth_bound,
    Slowness.LAUNCH_BOUND: launch_bound,
    Slowness.TENSOR_CORES_IDLE: tensor_cores_idle,
    Slowness.OVERSIZED: oversized,
}


def diagnose(ranks: Sequence[RankTelemetry]) -> Diagnosis:
    """The verdict over one attempt.

    Args:
        ranks: Telemetry of the ranks that left any.
    """
    if not ranks:
        return Diagnosis(verdict=Slowness.UNKNOWN, reason="no rank left any telemetry")
    evidence = Evidence(ranks)
    findings: list[Finding] = []
    not_judged: dict[str, str] = {}
    for kind, rule in RULES.items():
        found = rule(evidence)
        if isinstance(found, Missing):
            not_judged[kind.value] = found.what
        elif found is not None:
            findings.append(found)
    # Stable: among equals the order of the rules stays. A known loss goes first, the largest before all.
    findings.sort(key=lambda finding: -(finding.lost_share or 0.0))
    if findings:
        first = findings[0]
        return Diagnosis(
            verdict=first.kind, reason=first.reason, fix=first.fix, findings=tuple(findings), not_judged=not_judged
        )
    if len(not_judged) == len(RULES):
        return Diagnosis(verdict=Slowness.UNKNOWN, reason="no rule could be applied", not_judged=not_judged)
    return Diagnosis(verdict=Slowness.OK, reason=_where_the_time_goes(evidence), not_judged=not_judged)


def _where_the_time_goes(evidence: Evidence) -> str:
    names = {"compute": "computing", "data_wait": "waiting for data", "h2d": "copying", "sync": "waiting for others",
             "save": "saving"}  # fmt: skip
    parts = [f"{percent(share)} {text}" for name, text in names.items() if (share := evidence.share(name)) is not None]
    return f"time of the loop: {', '.join(parts)}" if parts else "nothing that was measured is out of the ordinary"
