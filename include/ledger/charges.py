"""Charges: what one life of a lease, or one job on the shared control lease, cost and was good for. Pure.

Useful, lost and idle seconds are defined in `include.ledger.paid_time`. Costs are estimates until a bill is reconciled:
price of one hour x paid hours, per instance where the provider says what each is billed for
(`include.ledger.billed_time`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from include.core.clock import iso
from include.core.contracts.lease import BilledTime
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.usage import Usage
from include.core.heartbeat import JobHeartbeat, LeaseHeartbeat
from include.core.json_codec import from_json
from include.ledger.billed_time import Bill, bill_of
from include.ledger.paid_time import AttemptSeconds, Split, milliseconds, split_paid_time

__all__ = ["AttemptSeconds", "Charge", "job_charge", "lease_charge", "price_details"]

# FOCUS 1.3, PricingCategory: "Dynamic" where the provider may change the price during use (spot).
_PRICING_CATEGORIES = {
    PurchaseOption.SPOT.value: "Dynamic",
    PurchaseOption.ON_DEMAND.value: "Standard",
    PurchaseOption.RESERVED.value: "Committed",
    PurchaseOption.LOCAL.value: "Other",
}
_MICRO_CENT = Decimal("1e-8")
_MS_PER_H = Decimal(3_600_000)
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One row of ``charges``; the table holds each field under its FOCUS or ``x_`` name. Unknown is None.

    Attributes:
        key: Idempotency key: the same key is never charged twice.
        period_start: ISO time, inclusive.
        period_end: ISO time, exclusive.
        dag_id: DAG of the run.
        run_id: Run that pays.
        lease_id: Lease that was paid for.
        job: Job and attempt for a job charge, None for the whole lease.
        sku_id: Instance type.
        region_id: Region, ``local`` for this machine.
        pricing_category: FOCUS category: Standard, Dynamic, Committed or Other.
        pricing_quantity_h: Paid hours.
        list_cost_usd: Cost at the list price without discounts.
        effective_cost_usd: Cost at the price paid.
        purchase: Purchase option.
        useful_s: Useful seconds.
        lost_s: Lost seconds.
        idle_s: Idle seconds.
        paid_s: Sum of the three.
        kwh: Energy.
        gco2e: Grams of CO2 equivalent.
        energy_method: ``measured`` or ``estimated`` and how.
        cost_method: ``measured`` or ``estimated`` and how.
        price_as_of: ISO date of the price.
        gpu_utilisation: Mean share of time with a kernel running, 0..1; None without a GPU.
        tensor_activity: Mean tensor-pipe activity, 0..1; None without a GPU.
        gpu_peak_memory_share: Peak share of device memory, 0..1; None without a GPU.
        peak_rss_bytes: Peak resident memory of the largest process.
        supersedes: Key of the charge that this one corrects.
    """

    key: str
    period_start: str
    period_end: str
    dag_id: str
    run_id: str
    lease_id: str
    job: str | None = None
    sku_id: str | None = None
    region_id: str | None = None
    pricing_category: str | None = None
    pricing_quantity_h: Decimal | None = None
    pricing_unit: str = "Hours"
    list_cost_usd: Decimal | None = None
    effective_cost_usd: Decimal | None = None
    billing_currency: str = "USD"
    purchase: str | None = None
    useful_s: float | None = None
    lost_s: float | None = None
    idle_s: float | None = None
    paid_s: float | None = None
    kwh: float | None = None
    gco2e: float | None = None
    energy_method: str = _UNKNOWN
    cost_method: str = _UNKNOWN
    price_as_of: str | None = None
    gpu_utilisation: float | None = None
    tensor_activity: float | None = None
    gpu_peak_memory_share: float | None = None
    peak_rss_bytes: int | None = None
    supersedes: str | None = None


def price_details(offer: Offer, *, list_usd_per_h: str | None = None) -> dict[str, Any]:
    """The part of the launch details that charges are computed from.

    Args:
        offer: What is launched.
        list_usd_per_h: List price of the same type (on-demand), None where unknown; an offer that is not spot or
            reserved is its own list price.
    """
    price = offer.price
    if (
        list_usd_per_h is None
        and price is not None
        and offer.purchase in (PurchaseOption.ON_DEMAND, PurchaseOption.LOCAL)
    ):
        list_usd_per_h = price.usd_per_h
    return {
        "instance_type": offer.instance_type,
        "region": offer.region,
        "purchase": offer.purchase.value,
        "usd_per_h": price.usd_per_h if price else None,
        "list_usd_per_h": list_usd_per_h,
        "price_as_of": price.as_of if price else None,
        "price_source": price.source if price else None,
        "price_method": price.method if price else None,
    }


def lease_charge(
    *,
    lease_id: str,
    dag_id: str,
    run_id: str,
    launch: Mapping[str, Any],
    heartbeat: Mapping[str, Any] | None,
    started_at: datetime,
    ended_at: datetime,
    attempts: Iterable[AttemptSeconds],
    billed: Sequence[BilledTime] = (),
) -> Charge:
    """Charge for the whole life of one lease, from its launch to its end.

    Seconds are those of all its instances together: two instances for an hour are two paid hours.

    Args:
        lease_id: The lease.
        dag_id: DAG of the run that pays.
        run_id: Run that pays.
        launch: Launch details with the keys of `price_details`; a missing key is an unknown.
        heartbeat: Last `LeaseHeartbeat` as JSON, None where there is none: energy and usage are then unknown.
        started_at: When the lease began to cost.
        ended_at: When it stopped to cost.
        attempts: All attempts that ran on the lease.
        billed: What each instance is billed for, empty where only the lease's own life is known.

    Raises:
        pydantic.ValidationError: The heartbeat is not a `LeaseHeartbeat`.
    """
    beat = None if heartbeat is None else from_json(LeaseHeartbeat, dict(heartbeat))
    bill = bill_of(billed, usd_per_h=launch.get("usd_per_h"), until=ended_at)
    instances = len(billed) or int(launch.get("instances") or 1)
    paid_s = (ended_at - started_at).total_seconds() * instances if bill is None else bill.seconds
    # Every instance is held while an attempt runs: its seconds count once for each.
    ran = tuple(attempt.times(instances) for attempt in attempts)
    return _charge(
        key=f"lease:{lease_id}",
        names={"lease_id": lease_id, "dag_id": dag_id, "run_id": run_id},
        started_at=started_at if bill is None else bill.started_at,
        ended_at=ended_at if bill is None else bill.ended_at,
        split=split_paid_time(paid_s=paid_s, attempts=ran),
        launch=launch,
        usage=beat.usage if beat else None,
        agent_usd=beat.spend_usd if beat else None,
        bill=bill,
    )


def job_charge(
    *,
    lease_id: str,
    dag_id: str,
    run_id: str,
    job: str,
    attempt: int,
    launch: Mapping[str, Any],
    heartbeat: Mapping[str, Any] | None,
    started_at: datetime,
    seconds: AttemptSeconds,
) -> Charge:
    """Charge for one attempt on a lease that runs share: its own seconds, none of them idle.

    Args:
        lease_id: The shared lease.
        dag_id: DAG of the run that pays.
        run_id: Run that pays.
        job: Job without its attempt number.
        attempt: Attempt number.
        launch: Launch details of the lease with the keys of `price_details`.
        heartbeat: Last `JobHeartbeat` of the attempt as JSON, None where there is none.
        started_at: When the attempt began.
        seconds: What it took; ``heartbeat["usage"]["wall_s"]`` is the measured wall time.

    Raises:
        pydantic.ValidationError: The heartbeat is not a `JobHeartbeat`.
    """
    beat = None if heartbeat is None else from_json(JobHeartbeat, dict(heartbeat))
    return _charge(
        key=f"job:{dag_id}/{run_id}/{job}-{attempt}",
        names={"lease_id": lease_id, "dag_id": dag_id, "run_id": run_id, "job": f"{job}-{attempt}"},
        started_at=started_at,
        ended_at=None,
        split=split_paid_time(paid_s=seconds.seconds, attempts=(seconds,)),
        launch=launch,
        usage=beat.usage if beat else None,
        agent_usd=beat.spend_usd if beat else None,
    )


def _charge(
    *,
    key: str,
    names: dict[str, Any],
    started_at: datetime,
    ended_at: datetime | None,
    split: Split,
    launch: Mapping[str, Any],
    usage: Usage | None,
    agent_usd: str | None,
    bill: Bill | None = None,
) -> Charge:
    purchase = launch.get("purchase")
    cost, method = _effective_cost(split, launch, agent_usd) if bill is None else (bill.usd, bill.method)
    return Charge(
        key=key,
        **names,
        period_start=iso(started_at),
        period_end=iso(ended_at or started_at + timedelta(seconds=split.paid_s)),
        sku_id=launch.get("instance_type"),
        region_id=launch.get("region"),
        pricing_category=_PRICING_CATEGORIES.get(str(purchase)),
        pricing_quantity_h=(Decimal(milliseconds(split.paid_s)) / _MS_PER_H).quantize(_MICRO_CENT),
        list_cost_usd=_cost(launch.get("list_usd_per_h"), split),
        effective_cost_usd=cost,
        purchase=purchase,
        useful_s=split.useful_s,
        lost_s=split.lost_s,
        idle_s=split.idle_s,
        paid_s=split.paid_s,
        cost_method=method,
        price_as_of=launch.get("price_as_of"),
        **_usage_columns(usage),
    )


def _cost(usd_per_h: str | None, split: Split) -> Decimal | None:
    if usd_per_h is None:
        return None
    return (Decimal(usd_per_h) * milliseconds(split.paid_s) / _MS_PER_H).quantize(_MICRO_CENT)


def _effective_cost(split: Split, launch: Mapping[str, Any], agent_usd: str | None) -> tuple[Decimal | None, str]:
    cost = _cost(launch.get("usd_per_h"), split)
    if cost is not None:
        source = (
            f", {launch['price_method']} price from {launch.get('price_source')}" if "price_method" in launch else ""
        )
        return cost, f"estimated: price per hour x paid hours{source}"
    if agent_usd is not None:
        return Decimal(agent_usd).quantize(_MICRO_CENT), "estimated: the agent's own sum at its last heartbeat"
    return None, "unknown: no price was known at launch"


def _usage_columns(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {"energy_method": "unknown: no heartbeat reported usage"}
    return {
        "kwh": usage.energy.kwh,
        "gco2e": usage.energy.gco2e,
        "energy_method": usage.energy.method,
        "gpu_utilisation": usage.gpu_utilisation,
        "tensor_activity": usage.tensor_activity,
        "gpu_peak_memory_share": usage.gpu_peak_memory_share,
        "peak_rss_bytes": usage.max_rss_bytes,
    }
