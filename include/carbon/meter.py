"""The meter an agent carries: estimated from CPU seconds, or one CodeCarbon tracker split over the jobs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from include.carbon.energy import estimate_energy
from include.core.contracts.usage import Energy
from include.core.nvml import nvml_devices

_log = logging.getLogger("plimsoll.carbon")

MeterMode = Literal["estimate", "codecarbon", "auto"]
POWERCAP = Path("/sys/class/powercap")


class EnergyMeter(Protocol):
    """Turns the CPU seconds of a job into energy and carbon."""

    def start(self) -> None:
        """Begin to measure; returns at once."""
        ...

    def energy(self, *, cpu_s: float, wall_s: float) -> Energy:
        """Energy of a job that used this much CPU and wall time since the meter started."""
        ...

    def stop(self) -> None:
        """Release what the meter holds; figures stay readable. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerModel:
    """What is stated about a machine's power.

    Attributes:
        idle_w: Power of the whole machine at idle, in watts, None where unknown.
        peak_w: Power of the whole machine under full load, in watts, None where unknown.
        cores: Cores of the machine.
        exclusive: True when the machine runs for nobody else.
        gco2e_per_kwh: Grid intensity, None where unknown.
    """

    idle_w: float | None
    peak_w: float | None
    cores: int
    exclusive: bool
    gco2e_per_kwh: float | None

    def estimate(self, *, cpu_s: float, wall_s: float) -> Energy:
        """Energy by formula; see `estimate_energy`."""
        return estimate_energy(
            cpu_s=cpu_s,
            wall_s=wall_s,
            cores=self.cores,
            idle_w=self.idle_w,
            peak_w=self.peak_w,
            exclusive=self.exclusive,
            gco2e_per_kwh=self.gco2e_per_kwh,
        )


@dataclass(frozen=True, slots=True)
class EstimateMeter:
    """Formula only: costs nothing, needs no counter."""

    power: PowerModel

    def start(self) -> None:
        """Nothing to start."""

    def energy(self, *, cpu_s: float, wall_s: float) -> Energy:
        """Energy by formula."""
        return self.power.estimate(cpu_s=cpu_s, wall_s=wall_s)

    def stop(self) -> None:
        """Nothing to stop."""


def rapl_readable(root: Path = POWERCAP) -> bool:
    """Whether this process may read at least one RAPL energy counter (most kernels allow root only)."""
    for counter in root.glob("intel-rapl*/energy_uj"):
        try:
            counter.read_text(encoding="ascii")
        except OSError:
            continue
        return True
    return False


def nvml_readable() -> bool:
    """Whether NVML answers and knows at least one GPU."""
    return nvml_devices() > 0


def open_meter(
    *,
    mode: MeterMode,
    idle_w: float | None,
    peak_w: float | None,
    cores: int,
    exclusive: bool,
    gco2e_per_kwh: float | None,
) -> EnergyMeter:
    """The meter for this machine.

    Args:
        mode: ``estimate`` (formula), ``codecarbon`` (always a tracker), or ``auto``: a tracker only where there are
            counters to read, since without them it estimates too and its start costs seconds of CPU.
        idle_w: Power of the whole machine at idle, in watts.
        peak_w: Power of the whole machine under full load, in watts.
        cores: Cores of the machine.
        exclusive: True when the machine runs for nobody else.
        gco2e_per_kwh: Grid intensity, None where unknown.
    """
    power = PowerModel(idle_w=idle_w, peak_w=peak_w, cores=cores, exclusive=exclusive, gco2e_per_kwh=gco2e_per_kwh)
    if mode == "codecarbon" or (mode == "auto" and (rapl_readable() or nvml_readable())):
        from include.carbon.codecarbon_meter import CodeCarbonMeter  # noqa: PLC0415 - needed on few machines

        return CodeCarbonMeter(power=power, rapl=rapl_readable(), nvml=nvml_readable())
    return EstimateMeter(power)
