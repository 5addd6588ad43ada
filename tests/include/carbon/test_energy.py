"""Energy formulas, with their units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.carbon.energy import estimate_energy, gco2e_of

MACHINE = {"cores": 2, "idle_w": 10.0, "peak_w": 40.0, "gco2e_per_kwh": 500.0}


def test_a_process_on_a_shared_machine_pays_for_its_cpu_seconds_only():
    # 40 W over 2 cores is 20 W for each; 3600 s of one core are 20 Wh.
    energy = estimate_energy(cpu_s=3600, wall_s=10_000, exclusive=False, **MACHINE)
    assert energy.kwh == pytest.approx(0.020)
    assert energy.gco2e == pytest.approx(10.0)
    assert energy.method.startswith("estimated: process model")


def test_a_rented_machine_pays_for_idle_time_too():
    # One hour, half of the 2 cores busy: 10 Wh idle + 30 W x 0.5 x 1 h.
    energy = estimate_energy(cpu_s=3600, wall_s=3600, exclusive=True, **MACHINE)
    assert energy.kwh == pytest.approx(0.025)
    assert energy.method.startswith("estimated: machine model")


def test_an_idle_rented_machine_draws_its_idle_power():
    assert estimate_energy(cpu_s=0, wall_s=3600, exclusive=True, **MACHINE).kwh == pytest.approx(0.010)


def test_load_is_at_most_full():
    assert estimate_energy(cpu_s=99_999, wall_s=3600, exclusive=True, **MACHINE).kwh == pytest.approx(0.040)


def test_no_time_takes_no_energy():
    assert estimate_energy(cpu_s=0, wall_s=0, exclusive=True, **MACHINE).kwh == 0


@pytest.mark.parametrize(("idle_w", "exclusive"), [(None, True), (10.0, True), (10.0, False)])
def test_unknown_power_is_unknown_energy(idle_w, exclusive):
    peak_w = 40.0 if idle_w is None else None
    energy = estimate_energy(
        cpu_s=1, wall_s=1, cores=2, idle_w=idle_w, peak_w=peak_w, exclusive=exclusive, gco2e_per_kwh=500
    )
    assert (energy.kwh, energy.gco2e) == (None, None)
    assert energy.method.startswith("unknown")


def test_a_shared_machine_needs_no_idle_power():
    energy = estimate_energy(cpu_s=3600, wall_s=1, cores=1, idle_w=None, peak_w=10, exclusive=False, gco2e_per_kwh=None)
    assert energy.kwh == pytest.approx(0.010)
    assert energy.gco2e is None
    assert "grid intensity unknown" in energy.method


@pytest.mark.parametrize("wrong", [{"cores": 0}, {"cpu_s": -1}, {"wall_s": -1}])
def test_senseless_figures_are_refused(wrong):
    with pytest.raises(ValueError, match="must be positive"):
        estimate_energy(**{"cpu_s": 1, "wall_s": 1, "exclusive": False, **MACHINE, **wrong})


@given(a=st.floats(0, 1e6), b=st.floats(0, 1e6))
def test_shares_of_a_shared_machine_add_up(a, b):
    parts = [estimate_energy(cpu_s=c, wall_s=1, exclusive=False, **MACHINE).kwh for c in (a, b, a + b)]
    assert parts[0] + parts[1] == pytest.approx(parts[2])


def test_carbon_needs_both_factors():
    assert gco2e_of(2.0, 475.0) == 950.0
    assert gco2e_of(None, 475.0) is None
    assert gco2e_of(2.0, None) is None
