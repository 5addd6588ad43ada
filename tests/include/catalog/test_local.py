"""This machine as an offer."""

from __future__ import annotations

from datetime import date

import psutil

from include.catalog.local import local_offer, usable_cores, usable_ram_bytes
from include.config.settings import Settings
from include.core.contracts.offer import PurchaseOption

SETTINGS = Settings(usd_per_kwh="0.30", tariff_as_of="2026-10-01", idle_w=10, peak_w=40)


def test_an_hour_costs_the_electricity_of_the_peak_power():
    offer = local_offer(SETTINGS, today=date(2026, 11, 30))
    assert offer.price.usd_per_h == "0.012"  # 0.30 USD/kWh x 0.040 kW
    assert offer.price.method == "estimated"
    assert offer.price.as_of == "2026-10-01"
    assert "0.30 USD/kWh" in offer.price.source
    assert "40 W" in offer.price.source


def test_it_describes_this_machine():
    offer = local_offer(SETTINGS, today=date(2026, 11, 30))
    assert offer.purchase is PurchaseOption.LOCAL
    assert (offer.engine, offer.instance_type, offer.region) == ("local", "this-machine", "local")
    assert 1 <= offer.vcpus == usable_cores() <= psutil.cpu_count()
    assert offer.ram_bytes <= psutil.virtual_memory().total
    assert (offer.idle_w, offer.peak_w) == (10, 40)
    assert offer.facts_as_of == "2026-11-30"


def test_a_free_tariff_is_a_price_of_zero_not_an_unknown_one():
    assert local_offer(Settings(usd_per_kwh="0"), today=date(2026, 11, 30)).price.usd_per_h == "0"


def test_memory_is_that_of_the_container(tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    assert usable_ram_bytes(limit) == 1_000_000
    limit.write_text("max\n")
    assert usable_ram_bytes(limit) == psutil.virtual_memory().total
    assert usable_ram_bytes(tmp_path / "absent") == psutil.virtual_memory().total
