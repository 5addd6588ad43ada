"""What kept a training from being faster or cheaper, with the numbers that say so."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Slowness(StrEnum):
    """What a training can suffer from."""

    DATA_BOUND = "data-bound"
    SCALLOPED = "scalloped"
    COPY_BOUND = "copy-bound"
    LAUNCH_BOUND = "launch-bound"
    BANDWIDTH_BOUND = "bandwidth-bound"
    TENSOR_CORES_IDLE = "tensor cores idle"
    BATCH_TOO_LARGE = "batch too large"
    STRAGGLER = "straggler"
    SAVE_STALL = "save stall"
    NEAR_OUT_OF_MEMORY = "near out of memory"
    OVERSIZED = "oversized"
    OK = "ok"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found.

    Attributes:
        kind: What.
        reason: Why it was found, in one sentence with numbers.
        fix: What to try first.
        evidence: The numbers by name; shares are 0..1.
        lost_share: Share of the time that is lost to it, None where that is not known.
    """

    kind: Slowness
    reason: str
    fix: str
    evidence: dict[str, float] = field(default_factory=dict)
    lost_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The verdict over one attempt of a training.

    Attributes:
        verdict: The most important finding; ``ok`` for none, ``unknown`` when too little was measured for any rule.
        reason: Why, in one sentence with numbers.
        fix: What to try first; empty for ``ok``.
        findings: All of them, the most important first.
        not_judged: Rules that could not be applied, with what was missing.
    """

    verdict: Slowness
    reason: str
    fix: str = ""
    findings: tuple[Finding, ...] = ()
    not_judged: dict[str, str] = field(default_factory=dict)
