"""What a job or a lease used, and the energy that follows from it. Not measured is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy and carbon with the way they were obtained.

    Attributes:
        kwh: Kilowatt-hours, None where unknown.
        gco2e: Grams of CO2 equivalent, None where unknown.
        method: For people: ``measured`` or ``estimated`` and how.
    """

    kwh: float | None
    gco2e: float | None
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources used by one job attempt or by a whole lease.

    Attributes:
        wall_s: Wall seconds.
        cpu_s: CPU seconds of the process tree.
        max_rss_bytes: Peak resident memory of the largest process.
        gpu_utilisation: Mean share of time with a kernel running, 0..1; None without a GPU.
        tensor_activity: Mean tensor-pipe activity, 0..1; None without a GPU.
        gpu_peak_memory_share: Peak share of device memory, 0..1; None without a GPU.
        energy: Energy and carbon.
    """

    wall_s: float
    cpu_s: float
    max_rss_bytes: int
    energy: Energy
    gpu_utilisation: float | None = None
    tensor_activity: float | None = None
    gpu_peak_memory_share: float | None = None
