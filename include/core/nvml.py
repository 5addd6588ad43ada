"""How many GPUs of NVIDIA this machine has."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)


def nvml_devices() -> int:
    """GPUs that NVML knows; 0 where it does not answer."""
    try:
        import pynvml  # noqa: PLC0415 - only machines with a GPU driver get further

        pynvml.nvmlInit()
    except Exception as error:  # noqa: BLE001 - the binding raises its own types and OSError; all mean "no counters"
        _log.debug("no NVML: %s", error)
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
