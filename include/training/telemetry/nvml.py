"""The device by NVML, through the optional package nvidia-ml-py."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from include.training.telemetry.facts import (
    GPU_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_USED,
    GPU_POWER,
    PCIE_FROM_DEVICE,
    PCIE_TO_DEVICE,
)

# Bytes per second, direction and lane by generation, after line coding (PCI-SIG base specification).
_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_PERCENT = 0.01
_KILOBYTE = 1000.0
_MILLIWATT = 0.001


class NvmlReader:
    """Utilisation, memory, power and PCIe traffic of one device.

    Args:
        uuid: UUID of the device (``GPU-...``): its index in NVML is not the one that CUDA gives it. None takes the
            only device of the machine.
        binding: The module ``pynvml``; None imports it.
    """

    name = "nvml"

    def __init__(self, *, uuid: str | None = None, binding: Any = None) -> None:  # noqa: ANN401 - a module
        self._uuid = uuid
        self._binding = binding
        self._device: Any = None

    def open(self) -> str | None:
        """Find the device."""
        try:
            nvml = self._binding = self._binding or importlib.import_module("pynvml")
            nvml.nvmlInit()
        except Exception as error:  # noqa: BLE001 - the binding raises its own types and OSError: all mean "no NVML"
            return f"NVML does not answer: {error}"
        try:
            return self._find(nvml)
        except Exception as error:  # noqa: BLE001 - as above
            return f"NVML does not know the device: {error}"

    def _find(self, nvml: Any) -> str | None:  # noqa: ANN401 - a module
        if self._uuid is not None:
            self._device = nvml.nvmlDeviceGetHandleByUUID(self._uuid)
            return None
        count = nvml.nvmlDeviceGetCount()
        if count != 1:
            return f"{count} devices, and none of them was named"
        self._device = nvml.nvmlDeviceGetHandleByIndex(0)
        return None

    def read(self) -> dict[str, float | None]:
        """One look at the device; some devices do not answer to all questions."""
        nvml, device = self._binding, self._device
        return {
            GPU_BUSY: _ask(lambda: _PERCENT * nvml.nvmlDeviceGetUtilizationRates(device).gpu),
            GPU_MEMORY_BUSY: _ask(lambda: _PERCENT * nvml.nvmlDeviceGetUtilizationRates(device).memory),
            GPU_MEMORY_USED: _ask(lambda: nvml.nvmlDeviceGetMemoryInfo(device).used),
            GPU_POWER: _ask(lambda: _MILLIWATT * nvml.nvmlDeviceGetPowerUsage(device)),
            # NVML speaks from the device: what it receives goes to it. Kilobytes per second over 20 ms.
            PCIE_TO_DEVICE: _ask(
                lambda: _KILOBYTE * nvml.nvmlDeviceGetPcieThroughput(device, nvml.NVML_PCIE_UTIL_RX_BYTES)
            ),
            PCIE_FROM_DEVICE: _ask(
                lambda: _KILOBYTE * nvml.nvmlDeviceGetPcieThroughput(device, nvml.NVML_PCIE_UTIL_TX_BYTES)
            ),
        }

    def pcie_bytes_per_s(self) -> float | None:
        """What the link can carry in one direction; the largest link of the slot, since an idle one is slowed down."""
        nvml, device = self._binding, self._device
        lane = _LANE_BYTES_PER_S.get(int(_ask(lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(device)) or 0))
        width = _ask(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(device))
        return None if lane is None or width is None else lane * width

    def close(self) -> None:
        """Let go of NVML."""
        if self._device is not None:
            _ask(self._binding.nvmlShutdown)


def _ask(question: Callable[[], Any]) -> float | None:
    try:
        answer = question()
    except Exception:  # noqa: BLE001 - "not supported" and "lost" are the binding's own types; both mean unknown
        return None
    return None if answer is None else float(answer)
