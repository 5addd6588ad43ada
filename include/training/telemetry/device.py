"""What torch knows of the device: its identity, its memory, and what the training's tensors took of it."""

from __future__ import annotations

from typing import Any


def device_uuid(device: Any) -> str | None:  # noqa: ANN401 - a torch.device; this file imports torch only when it runs
    """UUID as NVML and DCGM write it; None for the CPU."""
    import torch  # noqa: PLC0415 - readers of telemetry must stay light

    if device.type != "cuda":
        return None
    found = str(torch.cuda.get_device_properties(device).uuid)
    return found if found.startswith("GPU-") else f"GPU-{found}"


def device_memory(device: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Fields of `MachineFacts` that torch can fill; for the CPU only the name."""
    import torch  # noqa: PLC0415 - as above

    if device.type != "cuda":
        return {"device": device.type}
    return {
        "device": torch.cuda.get_device_name(device),
        "device_memory_bytes": int(torch.cuda.get_device_properties(device).total_memory),
        "device_peak_bytes": int(torch.cuda.max_memory_allocated(device)),
        "allocation_retries": int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0)),
    }
