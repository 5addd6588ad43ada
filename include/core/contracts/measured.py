"""What a training was measured to take, to be held against its prediction. Not measured is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass

from include.core.contracts.plan import Layout

OUT_OF_MEMORY = "out_of_memory.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One attempt of a training.

    Attributes:
        steps: Steps that were timed; 0 where none was.
        step_s: Median seconds of a step on the first worker, measured on the host.
        device: Name of the device as the driver gives it, ``cpu`` without one.
        peak_device_bytes: Most that the training's own tensors took of any device; None without a device.
        device_memory_bytes: Memory of that device.
        layout: Layout that the steps ran with, None where the caller knows.
    """

    steps: int
    step_s: float | None
    device: str
    peak_device_bytes: int | None
    device_memory_bytes: int | None
    layout: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """``<base>/out_of_memory.json``: a layout that did not fit into its device.

    Attributes:
        layout: The layout, None for a single worker without a plan.
        measured: What was measured up to then, None where nothing was.
        message: What the worker said.
    """

    layout: Layout | None
    measured: Measured | None
    message: str
