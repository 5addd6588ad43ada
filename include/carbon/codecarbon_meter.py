"""One CodeCarbon tracker per agent, its energy split over the jobs by their CPU seconds.

The tracker starts in a thread, because importing and starting CodeCarbon takes seconds. Until it is ready, and whenever
it fails, the figures are estimated and the method says why.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Any

import psutil

from include.carbon.energy import gco2e_of
from include.carbon.meter import PowerModel
from include.core.contracts.usage import Energy

_log = logging.getLogger("plimsoll.carbon")
# Below this the sampling of CodeCarbon (1 s) is coarser than what it measures.
SMALLEST_WINDOW_S = 1.0


class LatestEnergy:
    """Output handler that keeps the tracker's running total."""

    def __init__(self) -> None:
        self.kwh: float | None = None

    def out(self, total: Any, delta: Any) -> None:  # noqa: ANN401, ARG002 - CodeCarbon's record types
        """Take over the total at a flush."""
        self.kwh = float(total.energy_consumed)

    def live_out(self, total: Any, delta: Any) -> None:  # noqa: ANN401 - CodeCarbon's record types
        """Take over the total at a periodic report."""
        self.out(total, delta)

    def task_out(self, data: Any, experiment_name: str) -> None:  # noqa: ANN401 - CodeCarbon's record types
        """Tasks of CodeCarbon are not used."""

    def exit(self) -> None:
        """Nothing is open."""


def tree_cpu_s() -> float:
    """CPU seconds of this process, its living descendants and all children that were waited for."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue  # it ended meanwhile; its parent has its seconds
        total += times.user + times.system + times.children_user + times.children_system
    return total


def machine_cpu_s() -> float:
    """Busy CPU seconds of the whole machine since boot."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # guest time is already counted as user time
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


class CodeCarbonMeter:
    """Measured where there are counters, CodeCarbon's load model elsewhere.

    Energy of a job = energy per CPU second since the tracker started x CPU seconds of the job. RAPL counts the whole
    machine, so on a shared machine the CPU seconds of all its processes carry the energy; otherwise those of the
    agent's own process tree do.

    Args:
        power: What is stated about the machine; the fallback, and CodeCarbon's CPU power where RAPL cannot be read.
        rapl: Whether RAPL counters can be read.
        nvml: Whether NVML knows a GPU.
    """

    def __init__(self, *, power: PowerModel, rapl: bool, nvml: bool) -> None:
        self._power = power
        self._rapl = rapl
        self._nvml = nvml
        self._latest = LatestEnergy()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._tracker: Any = None
        self._reason = "not started"
        self._stopped = False
        self._cpu_at_start = 0.0
        self._started_at = 0.0
        self._kwh_per_cpu_s: float | None = None

    def start(self) -> None:
        """Begin in a thread; returns at once."""
        if self._thread is None and not self._stopped:
            self._reason = "CodeCarbon is still starting"
            self._thread = threading.Thread(target=self._begin, name="codecarbon-start", daemon=True)
            self._thread.start()

    def wait_started(self, timeout_s: float) -> bool:
        """Wait until the tracker runs or has failed; True when it runs."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._tracker is not None

    def energy(self, *, cpu_s: float, wall_s: float) -> Energy:
        """This job's share of the energy since the tracker started, estimated by formula until there is one."""
        with self._lock:
            self._measure()
            rate, reason = self._kwh_per_cpu_s, self._reason
        if rate is None:
            fallback = self._power.estimate(cpu_s=cpu_s, wall_s=wall_s)
            return replace(fallback, method=f"{fallback.method} ({reason})")
        kwh = rate * cpu_s
        return Energy(kwh=kwh, gco2e=gco2e_of(kwh, self._power.gco2e_per_kwh), method=self._method())

    def stop(self) -> None:
        """End the tracker's threads; the last rate stays readable."""
        if self._stopped:
            return
        self._stopped = True
        if self._thread is not None:
            self._thread.join(timeout=0.1)  # a start that still hangs sees `_stopped` and ends its tracker itself
        with self._lock:
            self._measure()
            tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.stop()

    def _cpu_s(self) -> float:
        """CPU seconds of everything whose energy the tracker counts."""
        return machine_cpu_s() if self._rapl and not self._power.exclusive else tree_cpu_s()

    def _begin(self) -> None:
        try:
            tracker = self._open_tracker()
        except Exception as error:  # noqa: BLE001 - whatever CodeCarbon raises, the agent goes on with estimates
            _log.warning("CodeCarbon did not start: %s", error)
            self._reason = f"CodeCarbon did not start: {type(error).__name__}: {error}"
            return
        with self._lock:
            self._cpu_at_start = self._cpu_s()
            self._started_at = time.monotonic()
            self._reason = f"CodeCarbon has measured for less than {SMALLEST_WINDOW_S:g} s"
            if not self._stopped:
                self._tracker = tracker
                return
        tracker.stop()

    def _open_tracker(self) -> Any:  # noqa: ANN401 - CodeCarbon has no types
        # Takes seconds, so only in this thread.
        from codecarbon import OfflineEmissionsTracker
        from codecarbon.core.cpu import is_rapl_available

        logging.getLogger("codecarbon").setLevel(logging.ERROR)
        self._rapl = self._rapl and bool(is_rapl_available())  # CodeCarbon must be able to use what we can read
        stated = (
            {}
            if self._rapl or self._power.peak_w is None
            else {
                "force_cpu_power": self._power.peak_w,
                "force_ram_power": 0.0,
                "force_mode_cpu_load": True,
            }
        )
        tracker = OfflineEmissionsTracker(
            country_iso_code="FRA",  # needed by the offline mode, unused: the intensity is applied by the meter
            tracking_mode="process",
            measure_power_secs=1,
            save_to_file=False,
            log_level="error",
            output_handlers=[self._latest],
            **stated,
        )
        tracker.start()
        tracker.flush()  # CodeCarbon swallows its own errors; a total that never arrives is how they show
        if self._latest.kwh is None:
            raise RuntimeError("no energy total arrived")
        return tracker

    def _measure(self) -> None:
        """Bring the rate up to date; keeps the last one when there is nothing new."""
        if self._tracker is None or time.monotonic() - self._started_at < SMALLEST_WINDOW_S:
            return
        self._tracker.flush()
        used = self._cpu_s() - self._cpu_at_start
        if self._latest.kwh and used > 0:
            self._kwh_per_cpu_s = self._latest.kwh / used
        else:
            self._reason = "CodeCarbon has counted no energy yet"

    def _method(self) -> str:
        cpu = (
            "CPU by RAPL, RAM by CodeCarbon's constant"
            if self._rapl
            else (
                "CodeCarbon's own power table"
                if self._power.peak_w is None
                else f"CPU load x stated {self._power.peak_w:g} W"
            )
        )
        kind = "measured" if self._rapl or self._nvml else "estimated"
        gpu = ", GPU by NVML" if self._nvml else ""
        grid = self._power.gco2e_per_kwh
        carbon = "grid intensity unknown" if grid is None else f"grid {grid:g} gCO2e/kWh"
        return f"{kind}: CodeCarbon process mode, {cpu}{gpu}, split by CPU seconds, {carbon}"
