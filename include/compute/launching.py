"""From an offer to a launch request: the same on every engine."""

from __future__ import annotations

from include.carbon.intensity import intensity_of
from include.config.settings import Settings
from include.core.contracts.lease import LaunchRequest
from include.core.contracts.offer import Offer
from include.ledger.charges import price_details

_NEVER_S = 10 * 365 * 86_400.0
_CONTROL_IDLE_S = 900.0


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
) -> LaunchRequest:
    """Everything the engine needs, with self-destruct, price and power in the launch itself.

    Args:
        lease_id: Idempotency token.
        generation: Generation of the group; the interruption drill hits only the first one.
        settings: Settings of the installation.
        group_id: Group of the lease.
        dag_id: Owning DAG, empty for the shared control lease.
        run_id: Owning run, empty for the shared control lease.
        offer: What is launched, with its price.
        drill_at: Fraction of the training at which a notice is injected, None for no drill.
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
        drill_notice_at=drill_at if generation == 1 else None,
        tags={key: str(value) for key, value in price_details(offer).items() if value is not None},
    )
