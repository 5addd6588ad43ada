"""Energy from CPU seconds and stated powers: pure formulas for machines without counters."""

from __future__ import annotations

from include.core.contracts.usage import Energy

J_PER_KWH = 3.6e6


def gco2e_of(kwh: float | None, gco2e_per_kwh: float | None) -> float | None:
    """Location-based carbon of an amount of energy, in grams; None where either factor is unknown."""
    return None if kwh is None or gco2e_per_kwh is None else kwh * gco2e_per_kwh


def shared_joules(*, cpu_s: float, cores: int, peak_w: float) -> float:
    """Energy of a process on a machine it shares, in joules: its CPU seconds at one core's part of the peak power.

    Idle power is left out, since the machine would run anyway; this is also how CodeCarbon treats a process.
    """
    return peak_w / cores * cpu_s


def exclusive_joules(*, cpu_s: float, wall_s: float, cores: int, idle_w: float, peak_w: float) -> float:
    """Energy of a machine that runs for nobody else, in joules: idle power all the time, the rest by its load.

    The linear power model (idle + load x (peak - idle)) is the usual one for servers: Fan, Weber, Barroso, "Power
    Provisioning for a Warehouse-sized Computer", ISCA 2007.
    """
    load = min(1.0, cpu_s / (cores * wall_s)) if wall_s > 0 else 0.0
    return idle_w * wall_s + (peak_w - idle_w) * load * wall_s


def estimate_energy(
    *,
    cpu_s: float,
    wall_s: float,
    cores: int,
    idle_w: float | None,
    peak_w: float | None,
    exclusive: bool,
    gco2e_per_kwh: float | None,
) -> Energy:
    """Energy and carbon of some work, estimated from the machine's stated powers.

    Args:
        cpu_s: CPU seconds of the work, summed over all cores.
        wall_s: Wall seconds it took.
        cores: Cores of the machine.
        idle_w: Power of the whole machine at idle, in watts; needed only for an exclusive machine.
        peak_w: Power of the whole machine under full load, in watts.
        exclusive: True when the machine runs only for this work (a rented instance), so that idle power counts too.
        gco2e_per_kwh: Grid intensity, None where unknown.

    Returns:
        Figures with their method; both are None where a power is unknown, carbon also where the intensity is.

    Raises:
        ValueError: A count or a duration makes no sense.
    """
    if cores < 1 or cpu_s < 0 or wall_s < 0:
        raise ValueError(f"cores must be positive, seconds not negative: {cores=} {cpu_s=} {wall_s=}")
    if peak_w is None or (exclusive and idle_w is None):
        return Energy(kwh=None, gco2e=None, method="unknown: no stated power for this machine")
    if exclusive:
        assert idle_w is not None
        joules = exclusive_joules(cpu_s=cpu_s, wall_s=wall_s, cores=cores, idle_w=idle_w, peak_w=peak_w)
        model = f"machine model, {idle_w:g} W idle to {peak_w:g} W at full load of {cores} cores, all wall seconds"
    else:
        joules = shared_joules(cpu_s=cpu_s, cores=cores, peak_w=peak_w)
        model = f"process model, stated {peak_w:g} W / {cores} cores x CPU seconds, idle power not counted"
    kwh = joules / J_PER_KWH
    return Energy(kwh=kwh, gco2e=gco2e_of(kwh, gco2e_per_kwh), method=f"estimated: {model}{_grid(gco2e_per_kwh)}")


def _grid(gco2e_per_kwh: float | None) -> str:
    return ", grid intensity unknown" if gco2e_per_kwh is None else f", grid {gco2e_per_kwh:g} gCO2e/kWh"
