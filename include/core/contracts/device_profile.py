"""What the profile job measured on a GPU of the machine that it ran on."""

from __future__ import annotations

from dataclasses import dataclass

from include.core.contracts.diagnosis import Diagnosis
from include.core.contracts.measured import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """A few real steps of one worker on random data.

    Attributes:
        measured: Steps that count, their median, and the peak of their tensors, with the layout that ran.
        warm_steps: Steps before them.
        out_of_memory: Whether they did not fit.
        diagnosis: Verdict over the series of the device and the host while the steps ran; of loading it knows nothing.
        sources: Who measured, by name, and what kept others from it.
    """

    measured: Measured
    warm_steps: int
    out_of_memory: bool
    diagnosis: Diagnosis
    sources: dict[str, str]
