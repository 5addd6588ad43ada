"""From an offer or candidates to a launch request: the same on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from include.carbon.intensity import intensity_of
from include.config.settings import Settings
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.contracts.offer import Offer
from include.ledger.charges import price_details

_NEVER_S = 10 * 365 * 86_400.0
_CONTROL_IDLE_S = 900.0
_DRILLED_GENERATIONS = {"ec2": 2}


def drill_fraction(at: float, generation: int, *, engine: str) -> float | None:
    """Fraction of the training at which a drill interrupts a generation, None where it does not.

    Args:
        at: Fraction of the first interruption.
        generation: Generation of the group.
        engine: Engine of the lease; a drill on a double of EC2 has a second interruption, half-way to the end.
    """
    if generation > _DRILLED_GENERATIONS.get(engine, 1):
        return None
    return 1 - (1 - at) / 2 ** (generation - 1)


def build_launch_request(
    lease_id: str,
    generation: int,
    *,
    settings: Settings,
    group_id: str,
    dag_id: str,
    run_id: str,
    offer: Offer,
    drill_at: float | None,
    instances: int = 1,
    owner: str = "",
    storage_bytes: int | None = None,
) -> LaunchRequest:
    """Everything the engine needs, with self-destruct, price and power in the launch itself.

    Args:
        lease_id: Idempotency token.
        generation: Generation of the group; the interruption drill hits the first one, on EC2 the first two.
        settings: Settings of the installation.
        group_id: Group of the lease.
        dag_id: Owning DAG, empty for the shared control lease.
        run_id: Owning run, empty for the shared control lease.
        offer: What is launched, with its price; of several candidates the first one's.
        drill_at: Fraction of the training at which a notice is injected, None for no drill.
        instances: Instances, all or none.
        owner: Person or team that pays.
        storage_bytes: Scratch space on disk that the jobs need, None where unknown.
    """
    shared = not run_id
    intensity = intensity_of(settings.region if offer.engine == "local" else offer.region)
    price = offer.price
    return LaunchRequest(
        lease_id=lease_id,
        group_id=group_id,
        dag_id=dag_id,
        run_id=run_id,
        # The control lease costs nothing that this machine does not cost anyway; it leaves when nobody uses it.
        expires_after_s=_NEVER_S if shared else settings.lease_expires_s,
        idle_s=_CONTROL_IDLE_S if shared else settings.lease_idle_s,
        instance_type=offer.instance_type,
        purchase=offer.purchase.value,
        usd_per_h=None if price is None else price.usd_per_h,
        idle_w=offer.idle_w,
        peak_w=offer.peak_w,
        gco2e_per_kwh=None if intensity is None else intensity.gco2e_per_kwh,
        drill_notice_at=None if drill_at is None else drill_fraction(drill_at, generation, engine=offer.engine),
        tags={key: str(value) for key, value in price_details(offer).items() if value is not None},
        engine=offer.engine,
        instances=instances,
        owner=owner,
        cost_centre=settings.cost_centre,
        storage_bytes=storage_bytes,
    )


def with_candidates(request: LaunchRequest, candidates: Sequence[LaunchCandidate]) -> LaunchRequest:
    """The request for candidates in this order: type, price and powers are those of the first one."""
    if not candidates:
        return request
    first = candidates[0]
    details = {
        "instance_type": first.instance_type,
        "region": first.region,
        "zone": first.zone,
        "purchase": first.purchase,
        "usd_per_h": first.usd_per_h,
        "list_usd_per_h": first.list_usd_per_h,
        **first.price,
    }
    return replace(
        request,
        candidates=tuple(candidates),
        instance_type=first.instance_type,
        purchase=first.purchase,
        usd_per_h=first.usd_per_h,
        idle_w=first.idle_w,
        peak_w=first.peak_w,
        gco2e_per_kwh=first.gco2e_per_kwh,
        tags={key: str(value) for key, value in details.items() if value is not None},
    )
