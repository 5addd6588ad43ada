from dataclasses import replace
from decimal import Decimal

from sqlalchemy import text

from include.ledger.charges import Charge

FULL = Charge(
    key="lease:train-x-g1",
    period_start="2026-11-30T10:00:00+00:00",
    period_end="2026-11-30T11:00:00+00:00",
    dag_id="digits",
    run_id="manual__2026-11-30",
    lease_id="train-x-g1",
    sku_id="g5.xlarge",
    pricing_quantity_h=Decimal("1.00000000"),
    list_cost_usd=Decimal("1.00600000"),
    effective_cost_usd=Decimal("0.00000001"),
    useful_s=3000.5,
    lost_s=0.0,
    idle_s=599.5,
    paid_s=3600.0,
    kwh=0.25,
    energy_method="measured: RAPL",
    cost_method="estimated: price per hour x paid hours",
    peak_rss_bytes=9_000_000_000,
)


def test_a_charge_comes_back_as_it_was_and_only_once(ledger, run):
    assert ledger.charge(FULL)
    assert not ledger.charge(replace(FULL, effective_cost_usd=Decimal(5)))
    assert ledger.charges(**run) == (FULL,)
    assert ledger.totals(**run).usd == Decimal("0.00000001")
    assert ledger.charges(dag_id="digits", run_id="another") == ()


def test_a_correction_takes_the_place_of_what_it_supersedes(ledger, run):
    ledger.charge(FULL)
    fixed = replace(FULL, key="lease:train-x-g1/2", effective_cost_usd=Decimal("0.5"), supersedes=FULL.key)
    again = replace(fixed, key="lease:train-x-g1/3", effective_cost_usd=Decimal("0.6"), supersedes=fixed.key)
    ledger.charge(fixed)
    assert ledger.totals(**run).usd == Decimal("0.5")
    ledger.charge(again)
    assert ledger.charges(**run) == (again,)


def test_the_table_speaks_focus(ledger, run):
    ledger.charge(FULL)
    with ledger._engine.begin() as connection:
        stored = connection.execute(text("SELECT * FROM charges")).mappings().one()
    assert stored["EffectiveCost"] == "0.00000001"
    assert (stored["SkuId"], stored["BillingCurrency"], stored["PricingUnit"]) == ("g5.xlarge", "USD", "Hours")
    assert (stored["x_PaidSeconds"], stored["x_Gco2e"], stored["x_GpuUtilisation"]) == (3600.0, None, None)
    assert {"ChargePeriodStart", "ChargePeriodEnd", "ListCost", "PricingCategory", "RegionId"} <= set(stored)
