"""What earlier runs teach about the next prediction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Measured over predicted of one kind of training on one kind of hardware.

    Attributes:
        family: The model's factory.
        device: Accelerator, or the instance type of a CPU offer (``this-machine`` for the local one).
        precision: Precision of the training.
        memory_ratio: Median of measured over traced peak of device memory (without margin), None where never measured.
        time_ratio: Median of measured over predicted seconds of a step, None where never measured.
        runs: Runs that the medians rest on.
        worst_memory_ratio: The largest ratio seen, None where never measured.
        as_of: ISO date of the newest of them.
        flags: What a reader has to know: a ratio that was cut to the allowed range, an out-of-memory among the runs.
        time_spread: Largest over smallest of the time ratios; None for fewer than two.
    """

    family: str
    device: str
    precision: str
    memory_ratio: float | None
    time_ratio: float | None
    runs: int
    worst_memory_ratio: float | None
    as_of: str
    flags: tuple[str, ...] = ()
    time_spread: float | None = None
