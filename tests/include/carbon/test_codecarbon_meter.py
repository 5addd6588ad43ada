"""The CodeCarbon meter: its arithmetic on a fake tracker, and once for real."""

from __future__ import annotations

import subprocess
import sys
import time
import types

import pytest

from include.carbon import codecarbon_meter
from include.carbon.codecarbon_meter import CodeCarbonMeter, LatestEnergy, machine_cpu_s, tree_cpu_s
from include.carbon.meter import PowerModel, open_meter

POWER = PowerModel(idle_w=10.0, peak_w=40.0, cores=2, exclusive=False, gco2e_per_kwh=500.0)


class FakeTracker:
    """Reports the totals that it is told to."""

    def __init__(self, latest: LatestEnergy) -> None:
        self.latest, self.total, self.stopped = latest, 0.0, 0

    def flush(self) -> None:
        self.latest.out(types.SimpleNamespace(energy_consumed=self.total), None)

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def running(monkeypatch):
    """A started meter whose tracker, CPU seconds and clock belong to the test."""
    meter = CodeCarbonMeter(power=POWER, rapl=False, nvml=False)
    tracker = FakeTracker(meter._latest)
    spent = {"cpu_s": 100.0}
    monkeypatch.setattr(meter, "_open_tracker", lambda: tracker)
    monkeypatch.setattr(codecarbon_meter, "tree_cpu_s", lambda: spent["cpu_s"])
    monkeypatch.setattr(codecarbon_meter, "SMALLEST_WINDOW_S", 0.0)
    meter.start()
    assert meter.wait_started(10)
    return meter, tracker, spent


def test_energy_is_split_by_cpu_seconds(running):
    meter, tracker, spent = running
    tracker.total, spent["cpu_s"] = 0.004, 140.0  # 40 CPU seconds since the start took 4 Wh
    energy = meter.energy(cpu_s=10.0, wall_s=99.0)
    assert energy.kwh == pytest.approx(0.001)
    assert energy.gco2e == pytest.approx(0.5)
    assert energy.method.startswith("estimated: CodeCarbon process mode")  # load model: no counter was read


def test_shares_of_all_jobs_add_up_to_the_total(running):
    meter, tracker, spent = running
    tracker.total, spent["cpu_s"] = 0.004, 140.0
    assert sum(meter.energy(cpu_s=c, wall_s=1).kwh for c in (15.0, 25.0)) == pytest.approx(0.004)


def test_before_there_is_a_total_it_estimates_and_says_so(running):
    meter, _, _ = running
    energy = meter.energy(cpu_s=3600.0, wall_s=3600.0)
    assert energy.kwh == pytest.approx(0.020)
    assert energy.method.endswith("(CodeCarbon has counted no energy yet)")


def test_figures_stay_readable_after_stop(running):
    meter, tracker, spent = running
    tracker.total, spent["cpu_s"] = 0.004, 140.0
    meter.stop()
    meter.stop()
    assert tracker.stopped == 1
    assert meter.energy(cpu_s=10.0, wall_s=1.0).kwh == pytest.approx(0.001)


def test_a_tracker_that_does_not_start_is_named_in_the_method(monkeypatch):
    meter = CodeCarbonMeter(power=POWER, rapl=False, nvml=False)

    def broken():
        raise ImportError("no such library")

    monkeypatch.setattr(meter, "_open_tracker", broken)
    meter.start()
    assert not meter.wait_started(10)
    energy = meter.energy(cpu_s=3600.0, wall_s=3600.0)
    assert energy.kwh == pytest.approx(0.020)
    assert "CodeCarbon did not start: ImportError: no such library" in energy.method
    meter.stop()


def test_never_started_estimates():
    meter = CodeCarbonMeter(power=POWER, rapl=False, nvml=False)
    assert meter.energy(cpu_s=1.0, wall_s=1.0).method.endswith("(not started)")
    meter.stop()


def test_start_returns_at_once_and_a_late_tracker_is_stopped(monkeypatch):
    meter = CodeCarbonMeter(power=POWER, rapl=False, nvml=False)
    tracker = FakeTracker(meter._latest)
    released = {"go": False}

    def slow():
        while not released["go"]:
            time.sleep(0.01)
        return tracker

    monkeypatch.setattr(meter, "_open_tracker", slow)
    began = time.monotonic()
    meter.start()
    assert time.monotonic() - began < 0.5
    assert "still starting" in meter.energy(cpu_s=1.0, wall_s=1.0).method
    meter.stop()  # while the start still hangs
    released["go"] = True
    meter.wait_started(10)
    assert tracker.stopped == 1


def test_children_that_were_waited_for_count():
    before, machine_before = tree_cpu_s(), machine_cpu_s()
    burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: sum(range(1000))"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert tree_cpu_s() - before >= 0.3
    assert machine_cpu_s() - machine_before >= 0.25


@pytest.mark.integration
def test_a_real_tracker_counts_a_child_process_about_right():
    machine = {"idle_w": 10.0, "peak_w": 40.0, "cores": 2, "exclusive": False, "gco2e_per_kwh": 475.0}
    meter = open_meter(mode="codecarbon", **machine)
    assert isinstance(meter, CodeCarbonMeter)
    meter.start()
    assert meter.wait_started(60)
    burn = "import time\nend = time.process_time() + 3\nwhile time.process_time() < end: sum(range(1000))"
    subprocess.run([sys.executable, "-c", burn], check=True)
    measured = meter.energy(cpu_s=3.0, wall_s=3.0)
    meter.stop()
    assert "CodeCarbon process mode" in measured.method
    assert measured.gco2e == pytest.approx(measured.kwh * 475)
    if measured.method.startswith("estimated"):
        # CodeCarbon divides the power by all cores it counts; it samples once a second and misses what ended between.
        expected = POWER.peak_w / codecarbon_meter.psutil.cpu_count() * 3.0 / 3.6e6
        assert expected / 2 < measured.kwh < expected * 1.5
