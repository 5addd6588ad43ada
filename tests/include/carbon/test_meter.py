"""Which meter an agent gets."""

from __future__ import annotations

import stat
import sys
import types

import pytest

from include.carbon import meter
from include.carbon.codecarbon_meter import CodeCarbonMeter
from include.carbon.energy import estimate_energy
from include.carbon.meter import EstimateMeter, open_meter, rapl_readable

MACHINE = {"idle_w": 10.0, "peak_w": 40.0, "cores": 2, "exclusive": False, "gco2e_per_kwh": 475.0}


def without_counters(monkeypatch, *, rapl=False, nvml=False):
    monkeypatch.setattr(meter, "rapl_readable", lambda: rapl)
    monkeypatch.setattr(meter, "nvml_readable", lambda: nvml)


def test_estimate_equals_the_formula():
    opened = open_meter(mode="estimate", **MACHINE)
    opened.start()
    assert opened.energy(cpu_s=5, wall_s=9) == estimate_energy(cpu_s=5, wall_s=9, **MACHINE)
    opened.stop()


def test_auto_estimates_where_there_are_no_counters(monkeypatch):
    without_counters(monkeypatch)
    assert isinstance(open_meter(mode="auto", **MACHINE), EstimateMeter)


@pytest.mark.parametrize("counter", ["rapl", "nvml"])
def test_auto_measures_where_there_are(monkeypatch, counter):
    without_counters(monkeypatch, **{counter: True})
    assert isinstance(open_meter(mode="auto", **MACHINE), CodeCarbonMeter)


def test_codecarbon_can_be_asked_for_without_counters(monkeypatch):
    without_counters(monkeypatch)
    assert isinstance(open_meter(mode="codecarbon", **MACHINE), CodeCarbonMeter)


def test_rapl_must_be_readable_not_only_there(tmp_path):
    assert not rapl_readable(tmp_path)
    (tmp_path / "intel-rapl:0").mkdir()
    counter = tmp_path / "intel-rapl:0" / "energy_uj"
    counter.mkdir()  # reading a folder fails like reading a file of root's does, for root as well
    assert not rapl_readable(tmp_path)
    counter.rmdir()
    counter.write_text("12345\n")
    counter.chmod(stat.S_IRUSR)
    assert rapl_readable(tmp_path)


@pytest.mark.parametrize(("devices", "expected"), [(0, False), (2, True)])
def test_nvml_needs_a_gpu(monkeypatch, devices, expected):
    fake = types.SimpleNamespace(nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: devices)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert meter.nvml_readable() is expected


def test_nvml_without_a_driver(monkeypatch):
    def no_driver():
        raise OSError("no driver")

    monkeypatch.setitem(sys.modules, "pynvml", types.SimpleNamespace(nvmlInit=no_driver))
    assert not meter.nvml_readable()
