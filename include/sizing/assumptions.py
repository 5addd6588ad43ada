"""Stated assumptions of the planner: what nobody has measured here yet. Every prediction names the ones it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from include.carbon.intensity import GridIntensity, load_intensities
from include.config.settings import Settings
from include.core.contracts.offer import Offer, PurchaseOption

# A memory estimate is taken with this margin. Traced peaks lie 0 to 1 % below the allocator's, with recomputed
# activations up to 18 % below, because the workspace of convolution kernels is not seen.
MEMORY_MARGIN = 1.10
MEMORY_MARGIN_RECOMPUTED = 1.20
# With peaks of earlier runs on this kind of device, the largest of them is taken with this margin instead.
MEMORY_MARGIN_LEARNED = 1.05
# Device memory of the driver's context; not measured on a GPU here.
GPU_CONTEXT_BYTES = 10**9
# Share of the memory that may be used; the rest goes to fragmentation.
USABLE_MEMORY = 0.92
# Shares of the datasheet's peak that dense training reaches; not calibrated on a GPU here.
REACHED_FLOP = 0.6
REACHED_BANDWIDTH = 0.8
# Share of the nominal bandwidth that collectives and copies reach, without any overlap with arithmetic; neither is
# calibrated on a GPU here, and both are on the pessimistic side.
REACHED_LINK = 0.7
# Between accelerators of one instance where the catalog has no figure, and between an accelerator and its host: PCIe
# 3.0 x16 has 8 GT/s x 16 lanes x 128/130, that is 15.75 GB/s per direction, the slowest link among the types on offer.
PCIE_BYTES_PER_S = 15.75e9
# One hop of a ring, within an instance and over the network (the alpha of the alpha-beta model).
HOP_S = 1e-5
NETWORK_HOP_S = 5e-5
# Traffic of an optimizer that updates offloaded weights on the cores of one worker.
HOST_UPDATE_BYTES_PER_S = 1e10
# Copy of a checkpoint that the loop waits for, and its read after an interruption.
SNAPSHOT_BYTES_PER_S = 2e9
RESTORE_BYTES_PER_S = 5e8
# Interruptions of spot capacity after which none comes back, so that the rest runs on demand.
NOT_REPLACED_SHARE = 0.2
# Accelerators that the trainer has no backend for.
NO_BACKEND = ("Inferentia", "Trainium", "Gaudi", "Qualcomm", "Radeon", "VU9P", "VU47P")
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
        grid_source: Of what, of which year and whose these intensities are, by region of an offer.
        save_s: Seconds that one checkpoint takes beyond the copy of its bytes.
        start_s: Seconds from launch to the first step, by engine; paid for.
        interruptions_per_h: Expected interruptions per hour, by purchase option.
    """

    gco2e_per_kwh: Mapping[str, float | None]
    grid_source: Mapping[str, str] = field(default_factory=dict)
    save_s: float = 0.1
    start_s: Mapping[str, float]
    interruptions_per_h: Mapping[PurchaseOption, float]

    def rate_of(self, offer: Offer) -> float:
        """Expected interruptions per hour of one instance: the offer's own rate, or that of its purchase option."""
        own = offer.interruptions_per_h
        return self.interruptions_per_h[offer.purchase] if own is None else own


def assume(settings: Settings) -> Assumptions:
    """Assumptions of an installation: this machine stands in the region of the settings."""
    table = load_intensities()
    grid = {region: entry.gco2e_per_kwh for region, entry in table.items()}
    sources = {region: _told(entry) for region, entry in table.items() if entry.gco2e_per_kwh is not None}
    grid["local"] = grid.get(settings.region)
    if settings.region in sources:
        sources["local"] = f"PLIMSOLL_REGION {settings.region}: {sources[settings.region]}"
    once_a_month = 1 / (30 * 24)
    return Assumptions(
        gco2e_per_kwh=grid,
        grid_source=sources,
        start_s={"local": 8.0, "ec2": 60.0},
        interruptions_per_h={
            PurchaseOption.SPOT: 0.05,
            PurchaseOption.ON_DEMAND: once_a_month,
            PurchaseOption.RESERVED: once_a_month,
            PurchaseOption.LOCAL: once_a_month,
        },
    )


def _told(entry: GridIntensity) -> str:
    return f"{entry.gco2e_per_kwh:g} gCO2e/kWh, {entry.scope}, average of {entry.year} ({entry.source})"
