"""The pools of Airflow: the queue for accelerators, and two that keep a small machine honest."""

from __future__ import annotations

import shutil
import subprocess

from stack.airflow_api import AirflowApi, quoted

_JOB_SLOTS = 2
_TIMEOUT_S = 10.0


def wanted_pools() -> dict[str, tuple[int, str]]:
    """Slots and description by pool."""
    return {
        "gpu": (max(1, accelerators()), "Queue for accelerators; one slot each, or one on a machine without."),
        "jobs": (_JOB_SLOTS, "Jobs of the control and work leases."),
        "measure": (1, "Measurements: never two at once."),
    }


def accelerators() -> int:
    """NVIDIA devices of this machine, as the driver's own tool lists them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    try:
        answer = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return 0
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())


def ensure(api: AirflowApi) -> None:
    """Create the pools that are missing. A person's own change of a pool stays."""
    for name, (slots, description) in wanted_pools().items():
        if api.find(f"/api/v2/pools/{quoted(name)}") is None:
            # Deferred tasks keep their slot: a job that runs on a lease still occupies it.
            body = {"name": name, "slots": slots, "include_deferred": True, "description": description}
            api.call("POST", "/api/v2/pools", body)
