"""Seconds become money, energy and carbon; what is unknown stays unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest

from include.compute.accounts import LeaseAccounts, spend_usd
from include.compute.process_usage import TreeUsage
from include.core.contracts.lease import LaunchRequest


def accounts(**fields: object) -> LeaseAccounts:
    spec = LaunchRequest(lease_id="l", group_id="g", run_id="r", dag_id="d", expires_after_s=60.0, **fields)
    return LeaseAccounts.of(spec, mode="estimate", shared_machine=True)


@pytest.mark.parametrize(
    ("usd_per_h", "seconds", "spend"), [("1.006", 3600.0, "1.006"), ("0.012", 90.0, "0.0003"), ("3", 0.0, "0")]
)
def test_spend_is_price_times_time(usd_per_h, seconds, spend):
    assert Decimal(spend_usd(usd_per_h=usd_per_h, seconds=seconds)) == Decimal(spend)


def test_an_unknown_price_gives_an_unknown_spend():
    assert accounts().spend(100.0) is None


def test_unknown_powers_give_unknown_energy_and_gpus_stay_unknown():
    usage = accounts().usage(wall_s=10.0, tree=TreeUsage(cpu_s=5.0, max_rss_bytes=1000))
    assert (usage.cpu_s, usage.max_rss_bytes) == (5.0, 1000)
    assert usage.energy.kwh is None
    assert usage.gpu_utilisation is None


def test_energy_of_a_shared_machine_follows_the_cpu_seconds_alone():
    terms = accounts(idle_w=10.0, peak_w=40.0, gco2e_per_kwh=400.0)
    short = terms.usage(wall_s=10.0, tree=TreeUsage(cpu_s=5.0))
    long = terms.usage(wall_s=1000.0, tree=TreeUsage(cpu_s=5.0))
    assert short.energy.kwh == long.energy.kwh > 0
    assert short.energy.gco2e == pytest.approx(400.0 * short.energy.kwh)
