from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from include.core.contracts.offer import Offer, Price, PurchaseOption
from include.core.contracts.usage import Energy, Usage
from include.core.heartbeat import JobHeartbeat, LeaseHeartbeat
from include.core.json_codec import to_json
from include.ledger.charges import AttemptSeconds, job_charge, lease_charge, price_details

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
OWNER = {"dag_id": "digits", "run_id": "r1"}
USAGE = Usage(
    wall_s=1800.0, cpu_s=900.0, max_rss_bytes=5_000_000_000, energy=Energy(kwh=0.02, gco2e=9.5, method="measured: RAPL")
)
OFFER = Offer(
    instance_type="g5.xlarge",
    engine="ec2",
    purchase=PurchaseOption.SPOT,
    region="eu-west-1",
    zone=None,
    accelerator="A10G",
    accelerators=1,
    accelerator_memory_bytes=None,
    accelerator_tflops={},
    memory_bandwidth_bytes_per_s=None,
    vcpus=4,
    ram_bytes=1,
    local_ssd_bytes=None,
    network=None,
    idle_w=None,
    peak_w=None,
    price=Price(usd_per_h="0.42", as_of="2026-11-29", source="price list", method="quoted"),
    facts_as_of="2026-11-29",
    facts_source="data sheet",
)


def beat(usage=USAGE, spend_usd=None):
    return to_json(LeaseHeartbeat(sequence=9, at="x", state="ended", usage=usage, spend_usd=spend_usd))


def charge(*, launch=None, heartbeat=None, paid_s=1800.0, attempts=()):
    return lease_charge(
        lease_id="train-x-g1",
        launch=price_details(OFFER, list_usd_per_h="1.006") if launch is None else launch,
        heartbeat=heartbeat,
        started_at=START,
        ended_at=START + timedelta(seconds=paid_s),
        attempts=attempts,
        **OWNER,
    )


def test_a_lease_costs_price_times_paid_hours():
    made = charge(heartbeat=beat(), attempts=[AttemptSeconds(reason="done", seconds=1500, lost_s=None)])
    assert (made.effective_cost_usd, made.list_cost_usd) == (Decimal("0.21000000"), Decimal("0.50300000"))
    assert (made.pricing_category, made.purchase, made.sku_id, made.region_id) == (
        "Dynamic",
        "spot",
        "g5.xlarge",
        "eu-west-1",
    )
    assert made.cost_method == "estimated: price per hour x paid hours, quoted price from price list"
    assert (made.price_as_of, made.pricing_quantity_h) == ("2026-11-29", Decimal("0.50000000"))
    assert (made.useful_s, made.lost_s, made.idle_s, made.paid_s) == (1500.0, 0.0, 300.0, 1800.0)
    assert (made.kwh, made.gco2e, made.energy_method, made.peak_rss_bytes) == (
        0.02,
        9.5,
        "measured: RAPL",
        5_000_000_000,
    )
    assert (made.period_start, made.period_end) == ("2026-11-30T10:00:00+00:00", "2026-11-30T10:30:00+00:00")
    assert (made.key, made.billing_currency, made.job) == ("lease:train-x-g1", "USD", None)


def test_without_a_gpu_its_figures_are_unknown_and_with_one_they_are_kept():
    assert charge(heartbeat=beat()).gpu_utilisation is None
    gpu = replace(USAGE, gpu_utilisation=0.7, tensor_activity=0.0, gpu_peak_memory_share=0.9)
    made = charge(heartbeat=beat(gpu))
    assert (made.gpu_utilisation, made.tensor_activity, made.gpu_peak_memory_share) == (0.7, 0.0, 0.9)


def test_without_a_heartbeat_energy_is_unknown_and_the_cost_is_not():
    made = charge(heartbeat=None)
    assert (made.kwh, made.gco2e, made.peak_rss_bytes) == (None, None, None)
    assert made.energy_method.startswith("unknown")
    assert made.effective_cost_usd == Decimal("0.21")


def test_without_a_price_the_agents_sum_is_taken_and_else_the_cost_is_unknown():
    unpriced = price_details(replace(OFFER, price=None))
    told = charge(launch=unpriced, heartbeat=beat(spend_usd="0.123456789"))
    assert (told.effective_cost_usd, told.list_cost_usd) == (Decimal("0.12345679"), None)
    assert "agent" in told.cost_method
    silent = charge(launch={}, heartbeat=beat())
    assert (silent.effective_cost_usd, silent.purchase, silent.sku_id, silent.pricing_category) == (None,) * 4
    assert silent.cost_method.startswith("unknown")


def test_a_spot_offer_is_not_its_own_list_price_but_an_on_demand_one_is():
    assert price_details(OFFER)["list_usd_per_h"] is None
    for purchase in (PurchaseOption.ON_DEMAND, PurchaseOption.LOCAL):
        assert price_details(replace(OFFER, purchase=purchase))["list_usd_per_h"] == "0.42"


@given(usd=st.decimals("0", "1000", places=4), paid_s=st.floats(0, 1e6))
def test_costs_are_exact_to_a_millionth_of_a_cent(usd, paid_s):
    made = charge(launch={"usd_per_h": str(usd)}, paid_s=paid_s)
    exact = usd * Decimal(round(made.paid_s * 1000)) / 3_600_000
    assert abs(made.effective_cost_usd - exact) <= Decimal("5e-9")


def test_a_heartbeat_of_another_shape_is_an_error():
    with pytest.raises(ValidationError):
        charge(heartbeat={"alive": True})


def test_a_job_on_a_shared_lease_pays_for_its_own_seconds_only():
    heartbeat = to_json(JobHeartbeat(sequence=3, at="x", state="exited", exit_code=0, usage=USAGE))
    made = job_charge(
        lease_id="control-0-g1",
        job="prepare",
        attempt=2,
        launch={"usd_per_h": "0.0120", "purchase": "local", "instance_type": "this-machine"},
        heartbeat=heartbeat,
        started_at=START,
        seconds=AttemptSeconds(reason="done", seconds=36.0, lost_s=None),
        **OWNER,
    )
    assert (made.key, made.job, made.lease_id) == ("job:digits/r1/prepare-2", "prepare-2", "control-0-g1")
    assert (made.useful_s, made.idle_s, made.paid_s, made.kwh) == (36.0, 0.0, 36.0, 0.02)
    assert (made.effective_cost_usd, made.pricing_category) == (Decimal("0.00012"), "Other")
