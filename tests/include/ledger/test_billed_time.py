"""What a provider bills: per second, a minute at least, each instance at its own price."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from include.core.clock import iso
from include.core.contracts.lease import BilledTime
from include.ledger.billed_time import bill_of
from include.ledger.charges import AttemptSeconds, lease_charge

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
LATER = START + timedelta(days=1)


def billed(seconds: float | None, *, usd: str | None = "1.00", after_s: float = 0.0, name: str = "i-1") -> BilledTime:
    begin = START + timedelta(seconds=after_s)
    end = None if seconds is None else iso(begin + timedelta(seconds=seconds))
    return BilledTime(instance_id=name, started_at=iso(begin), ended_at=end, usd_per_h=usd)


def usd_of(*instances: BilledTime, usd_per_h: str | None = None) -> Decimal | None:
    found = bill_of(instances, usd_per_h=usd_per_h, until=LATER)
    assert found is not None
    return found.usd


@pytest.mark.parametrize(("seconds", "usd"), [(1, "0.01666667"), (60, "0.01666667"), (61, "0.01694444"), (3600, "1")])
def test_seconds_and_the_minute(seconds: float, usd: str):
    assert usd_of(billed(seconds)) == Decimal(usd)


def test_each_instance_has_its_own_minute_and_price():
    assert usd_of(billed(3600), billed(10, usd="0.60", name="i-2")) == Decimal("1.01")


def test_a_price_of_the_lease_stands_in_and_none_is_unknown():
    assert usd_of(billed(3600, usd=None), usd_per_h="2") == Decimal(2)
    assert usd_of(billed(3600, usd=None)) is None


def test_nobody_says():
    assert bill_of((), usd_per_h="1", until=LATER) is None


def charge(*instances: BilledTime, attempts: tuple[AttemptSeconds, ...] = (), **launch: str):
    return lease_charge(
        lease_id="g-1", dag_id="d", run_id="r", launch={"purchase": "spot", "list_usd_per_h": "3", **launch},
        heartbeat=None, started_at=START, ended_at=START + timedelta(hours=2), attempts=attempts, billed=instances,
    )  # fmt: skip


def test_a_gang_is_paid_for_by_the_instance_and_its_parts_add_up():
    ran = (AttemptSeconds(reason="done", seconds=3000.0, lost_s=None),)
    found = charge(billed(3600), billed(3600, name="i-2"), attempts=ran)
    assert (found.paid_s, found.useful_s, found.lost_s, found.idle_s) == (7200.0, 6000.0, 0.0, 1200.0)
    assert found.effective_cost_usd == Decimal(2)
    assert found.list_cost_usd == Decimal(6)
    assert (found.period_start, found.period_end) == (iso(START), iso(START + timedelta(hours=1)))
    assert found.cost_method.startswith("estimated: price per hour x billed seconds of 2 instances")


def test_without_billed_times_the_life_of_the_lease_counts_for_every_instance():
    found = charge(instances="2", usd_per_h="1.00")
    assert found.effective_cost_usd == Decimal(4)
    assert charge(usd_per_h="1.00").effective_cost_usd == Decimal(2)


def test_an_unknown_price_is_said_to_be_unknown():
    assert charge(billed(3600, usd=None)).cost_method.startswith("unknown")
