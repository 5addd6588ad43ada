"""Stated assumptions of the planner: what nobody has measured here yet. Every prediction names the ones it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from include.carbon.intensity import load_intensities
from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption

# A memory estimate is taken with this margin. Traced peaks lie 0 to 1 % below the allocator's, with recomputed
# activations up to 18 % below, because the workspace of convolution kernels is not seen.
MEMORY_MARGIN = 1.10
MEMORY_MARGIN_RECOMPUTED = 1.20
# Device memory of the driver's context; not measured on a GPU here.
GPU_CONTEXT_BYTES = 10**9
# Share of the memory that may be used; the rest goes to fragmentation.
USABLE_MEMORY = 0.92
# Shares of the datasheet's peak that dense training reaches; not calibrated on a GPU here.
REACHED_FLOP = 0.6
REACHED_BANDWIDTH = 0.8
# Launch of one operator from Python.
LAUNCH_S = 5e-6
# A validation row costs a forward pass, a training row three times that.
FORWARD_SHARE = 1 / 3
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """Figures that differ between installations.

    Attributes:
        gco2e_per_kwh: Grid intensity by region of an offer, None or absent where unknown.
        save_s: Seconds of one committed checkpoint.
        start_s: Seconds from launch to the first step, by engine; paid for.
        interruptions_per_h: Expected interruptions per hour, by purchase option.
    """

    gco2e_per_kwh: Mapping[str, float | None]
    save_s: float = 0.1
    start_s: Mapping[str, float]
    interruptions_per_h: Mapping[PurchaseOption, float]


def assume(settings: Settings) -> Assumptions:
    """Assumptions of an installation: this machine stands in the region of the settings."""
    table = load_intensities()
    grid = {region: entry.gco2e_per_kwh for region, entry in table.items()}
    grid["local"] = grid.get(settings.region)
    once_a_month = 1 / (30 * 24)
    return Assumptions(
        gco2e_per_kwh=grid,
        start_s={"local": 8.0, "ec2": 60.0},
        interruptions_per_h={
            PurchaseOption.SPOT: 0.05,
            PurchaseOption.ON_DEMAND: once_a_month,
            PurchaseOption.RESERVED: once_a_month,
            PurchaseOption.LOCAL: once_a_month,
        },
    )
