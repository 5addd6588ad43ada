"""Seconds become money, energy and carbon; what is unknown stays unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest

from include.compute.accounts import LeaseAccounts, as_launched, spend_usd
from include.compute.imds_client import Instance
from include.compute.process_usage import TreeUsage
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.contracts.usage import Energy, Usage


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


def candidate(instance_type: str, purchase: str, zone: str | None, usd_per_h: str) -> LaunchCandidate:
    return LaunchCandidate(
        instance_type=instance_type,
        purchase=purchase,
        region="us-east-1",
        zone=zone,
        usd_per_h=usd_per_h,
        idle_w=60.0,
        peak_w=300.0,
        gco2e_per_kwh=380.0,
    )


SPEC = LaunchRequest(
    lease_id="l",
    group_id="g",
    run_id="r",
    dag_id="d",
    expires_after_s=60.0,
    usd_per_h="1",
    candidates=(
        candidate("g5.xlarge", "spot", None, "0.40"),
        candidate("g5.xlarge", "spot", "us-east-1b", "0.42"),
        candidate("g5.xlarge", "on-demand", None, "1.006"),
        candidate("g6.xlarge", "spot", "us-east-1a", "0.30"),
    ),
)


@pytest.mark.parametrize(
    ("instance_type", "life_cycle", "zone", "usd_per_h"),
    [
        ("g5.xlarge", "spot", "us-east-1a", "0.40"),
        ("g5.xlarge", "spot", "us-east-1b", "0.42"),  # the price of its own zone goes before that of any zone
        ("g5.xlarge", "on-demand", "us-east-1b", "1.006"),
        ("g6.xlarge", "spot", "us-east-1a", "0.30"),
        ("g6.xlarge", "spot", "us-east-1b", None),
        ("g6.xlarge", "on-demand", "us-east-1a", None),
        ("p5.48xlarge", "spot", "us-east-1a", None),
        (None, None, None, None),
    ],
)
def test_the_instance_says_which_candidate_was_launched(instance_type, life_cycle, zone, usd_per_h):
    instance = Instance(instance_type=instance_type, life_cycle=life_cycle, region="us-east-1", zone=zone)
    terms = as_launched(SPEC, instance)
    assert terms.usd_per_h == usd_per_h
    assert (terms.peak_w is None) == (usd_per_h is None)
    assert LeaseAccounts.of(terms, mode="estimate", shared_machine=False).spend(3600.0) == (
        None if usd_per_h is None else str(Decimal(usd_per_h).quantize(Decimal("0.000000001")))
    )


def test_without_candidates_the_spec_holds_as_it_is():
    spec = LaunchRequest(lease_id="l", group_id="g", run_id="r", dag_id="d", expires_after_s=60.0, usd_per_h="1")
    assert as_launched(spec, Instance()) is spec


def test_a_reservation_is_on_demand_to_the_instance():
    spec = LaunchRequest(
        lease_id="l",
        group_id="g",
        run_id="r",
        dag_id="d",
        expires_after_s=60.0,
        candidates=(candidate("g5.xlarge", "reserved", None, "0.7"),),
    )
    instance = Instance(instance_type="g5.xlarge", life_cycle="on-demand", region="us-east-1", zone="us-east-1a")
    assert as_launched(spec, instance).usd_per_h == "0.7"


def usage(kwh: float | None) -> Usage:
    return Usage(wall_s=10.0, cpu_s=4.0, max_rss_bytes=7, energy=Energy(kwh=kwh, gco2e=None, method="estimated"))


def test_a_lease_of_several_instances_costs_and_uses_what_all_of_them_do():
    terms = accounts(usd_per_h="1.5", instances=3)
    assert Decimal(terms.spend(3600.0) or "") == Decimal("4.5")
    whole = terms.whole(usage(0.1), [usage(0.2), usage(0.3)])
    assert (whole.cpu_s, whole.wall_s) == (12.0, 10.0)
    assert whole.energy.kwh == pytest.approx(0.6)
    assert whole.energy.gco2e is None
    assert "3 of 3 nodes" in whole.energy.method


def test_the_energy_of_a_node_that_has_told_none_is_not_taken_for_nothing():
    terms = accounts(instances=3)
    assert terms.whole(usage(0.1), [usage(0.2)]).energy.kwh is None
    assert terms.whole(usage(0.1), [usage(0.2), usage(None)]).energy.kwh is None
