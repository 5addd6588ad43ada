"""A torch.profiler trace of a few steps, on demand: ordered with the request, or while the training runs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from include.core.json_file import read_json, write_json
from include.training.telemetry.local_files import PROFILE_ORDER, TRACES

_log = logging.getLogger("plimsoll.telemetry")
_WAIT, _WARM_UP = 1, 1
DEFAULT_STEPS = 3
# A trace grows by megabytes per step.
MOST_STEPS = 20
_SHOWN_OPERATORS = 12
# How the profiler names what it sees between two of its steps.
_STEP = "ProfilerStep"


class StepProfiler:
    """Follows the steps of one rank and writes a trace when told to.

    Args:
        folder: The worker's scratch folder.
        steps: Steps to record from the start on; 0 for none.
    """

    def __init__(self, *, folder: Path, steps: int = 0) -> None:
        self._folder = folder
        self._ordered = min(steps, MOST_STEPS)
        self._left = 0
        self._step = 0
        self._profile: Any = None

    def look_for_order(self) -> None:
        """Take the order that lies in the folder, if there is one. Called once a second, from any thread."""
        path = self._folder / PROFILE_ORDER
        if not path.exists():
            return
        try:
            wanted = (read_json(path) or {}).get("steps", DEFAULT_STEPS)
        except (ValueError, AttributeError):
            wanted = DEFAULT_STEPS  # an empty file is an order too
        path.unlink(missing_ok=True)
        self._ordered = min(wanted, MOST_STEPS) if isinstance(wanted, int) and wanted > 0 else DEFAULT_STEPS

    def after_step(self) -> None:
        """A step is over."""
        self._step += 1
        if self._profile is not None:
            self._profile.step()
            self._left -= 1
            if self._left == 0:
                self.close()
        elif self._ordered:
            self._begin(self._ordered)
            self._ordered = 0

    def close(self) -> None:
        """End a recording; one that was cut short leaves no trace."""
        profile, self._profile = self._profile, None
        if profile is not None:
            profile.stop()

    def _begin(self, steps: int) -> None:
        import torch  # noqa: PLC0415 - only a run that is profiled needs the profiler

        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(
            activities=activities,
            schedule=torch.profiler.schedule(wait=_WAIT, warmup=_WARM_UP, active=steps, repeat=1),
            on_trace_ready=self._write,
            profile_memory=True,
        )
        self._left = _WAIT + _WARM_UP + steps
        self._profile.start()

    def _write(self, profile: Any) -> None:  # noqa: ANN401 - torch's profiler
        folder = self._folder / TRACES
        folder.mkdir(exist_ok=True)
        path = folder / f"step-{self._step}.json.gz"
        profile.export_chrome_trace(str(path))
        write_json(folder / f"step-{self._step}.summary.json", summary(profile))
        _log.info("profiler trace of %d steps written: %s", self._step, path.name)


def summary(profile: Any) -> dict[str, Any]:  # noqa: ANN401 - torch's profiler
    """The operators that took most of the recorded time by themselves, in microseconds.

    ``step_us`` is the wall time of the recorded steps, ``outside_us`` what of it the loop's thread spent outside of any
    operator: waiting for data, decoding it, and Python itself.
    """
    averages = profile.key_averages()
    steps = [event for event in averages if event.key.startswith(_STEP)]
    found = [
        {
            "operator": event.key,
            "calls": event.count,
            "self_cpu_us": round(float(event.self_cpu_time_total), 1),
            "self_device_us": round(float(getattr(event, "self_device_time_total", 0.0)), 1),
        }
        for event in averages
        if not event.key.startswith(_STEP)
    ]
    found.sort(key=lambda item: -(item["self_cpu_us"] + item["self_device_us"]))
    return {
        "operators": found[:_SHOWN_OPERATORS],
        "self_cpu_us": round(sum(item["self_cpu_us"] for item in found), 1),
        "step_us": round(sum(float(event.cpu_time_total) for event in steps), 1),
        "outside_us": round(sum(float(event.self_cpu_time_total) for event in steps), 1),
    }
