"""What a profile on a GPU teaches: prediction beside measurement, as the ledger keeps those of trainings. Pure."""

from __future__ import annotations

from typing import Any

from include.catalog.catalog_file import Chip
from include.catalog.driver_names import chip_of
from include.core.contracts.demand import Demand
from include.core.contracts.device_profile import DeviceProfile
from include.core.contracts.plan import Layout
from include.sizing.demand_table import memory_of, work_of
from include.sizing.roofline import device_s


def profile_event(demand: Demand, profile: DeviceProfile) -> dict[str, Any] | None:
    """Body of a ``prediction`` event; `include.ledger.corrections` reads it like that of a training.

    Args:
        demand: The whole demand, with its table.
        profile: What was measured.

    Returns:
        None for a device that the catalog does not know, or a slice of one: nothing was predicted for it.
    """
    measured = profile.measured
    known = chip_of(measured.device, measured.device_memory_bytes)
    layout = measured.layout
    if known is None or layout is None:
        return None
    name, chip = known
    traced = memory_of(demand, layout)
    return {
        "source": "profile",
        "family": demand.family,
        "device": name,
        "precision": layout.precision,
        "outcome": "out of memory" if profile.out_of_memory else "done",
        "out_of_memory": profile.out_of_memory,
        "layout_changed": False,
        "offer": f"{measured.device} of the profile",
        "step": {
            "predicted_s": _predicted_s(demand, layout, chip),
            "measured_s": measured.step_s,
            "steps": measured.steps,
        },
        "memory": {
            "predicted_bytes": None if traced is None else traced.total_bytes,
            "measured_bytes": measured.peak_device_bytes,
            "device_bytes": measured.device_memory_bytes if profile.out_of_memory else None,
        },
        "predicted": None,
        "compared": [],
    }


def _predicted_s(demand: Demand, layout: Layout, chip: Chip) -> float | None:
    """Seconds of the step as the planner has them for this device before anything is learned, loading left out."""
    work, bandwidth = work_of(demand, layout), chip.memory_bandwidth_gb_per_s
    rate = next((figure for precision, figure in chip.tflops.items() if precision == layout.precision), None)
    if work is None or rate is None or bandwidth is None:
        return None
    return device_s(work, tflops=rate, bandwidth=bandwidth * 1e9)
