"""Which of EC2's vCPU quotas a type counts against: one per family of families and purchase option.

Codes and families: "Amazon EC2 service quotas" and "Spot Instance quotas" in the EC2 user guide, as of November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

SPOT = "spot"
ON_DEMAND = "on-demand"

# The letters a type's name begins with, up to its generation: "g" of g5.xlarge, "trn" of trn1.32xlarge.
_LETTERS = re.compile(r"^([a-z]+?)(?:-|\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class VcpuQuota:
    """One quota in vCPUs.

    Attributes:
        family: The families it counts, as AWS names them.
        purchase: ``spot`` or ``on-demand``.
        code: Its code in Service Quotas.
    """

    family: str
    purchase: str
    code: str

    def __str__(self) -> str:
        kind = "Spot Instance Requests" if self.purchase == SPOT else "On-Demand instances"
        return f"{self.family} {kind} ({self.code})"


_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_FAMILY_OF_LETTERS: Mapping[str, str] = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "m", "r", "t", "z", "im", "is"), _STANDARD),
    **dict.fromkeys(("g", "gr", "vt"), "G and VT"),
    "p": "P",
    "trn": "Trn",
    "inf": "Inf",
    "dl": "DL",
    "f": "F",
    "x": "X",
}
_CODES: Mapping[str, Mapping[str, str]] = {
    ON_DEMAND: {
        _STANDARD: "L-1216C47A", "G and VT": "L-DB2E81BA", "P": "L-417A185B", "Trn": "L-2C3B7624",
        "Inf": "L-1945791B", "DL": "L-6E869C2A", "F": "L-74FC7D96", "X": "L-7295265B",
    },
    SPOT: {
        _STANDARD: "L-34B43A08", "G and VT": "L-3819A6DF", "P": "L-7212CCBC", "P5": "L-C4BD4855",
        "Trn": "L-6B0D517C", "Inf": "L-B5D1601B", "DL": "L-85EED4F7", "F": "L-88CF9481", "X": "L-E3A00192",
    },
}  # fmt: skip


def quota_of(instance_type: str, purchase: str) -> VcpuQuota | None:
    """The quota that a type counts against, None for families without one here."""
    letters = _LETTERS.match(instance_type)
    family = _FAMILY_OF_LETTERS.get(letters[1]) if letters else None
    if family is None:
        return None
    # Spot keeps P5 apart from the older P families.
    if purchase == SPOT and instance_type.startswith("p5"):
        family = "P5"
    return VcpuQuota(family=family, purchase=purchase, code=_CODES[purchase][family])
