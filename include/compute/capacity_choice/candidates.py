"""From the plan, or from a type by name, to ranked candidates. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from include.carbon.intensity import load_intensities
from include.core.contracts.lease import LaunchCandidate
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Plan

LOCAL = "local"
# More than this many pools are never all tried before the first of them is worth another try.
_MOST = 24
_MOST_STEADY = 8
# Spot that costs more than the chosen hardware on demand is no way to save, nor is on demand at more than twice that.
_SPOT_AT_MOST = Decimal(1)
_STEADY_AT_MOST = Decimal(2)
_STEADY = (PurchaseOption.ON_DEMAND, PurchaseOption.RESERVED)
_Place = tuple[str, PurchaseOption, str, str | None]


def plan_candidates(plan: Plan, *, on_demand_too: bool, regions: tuple[str, ...] = ()) -> tuple[LaunchCandidate, ...]:
    """Everything that would do for the training that was planned, best first.

    The chosen offer, then alternatives that are not rejected, of the same engine, and whose layout and number of
    instances are the plan's, since a training resumes exactly on the same layout alone; then on-demand twins.

    Args:
        plan: The plan. One on this machine, or on a partition of an accelerator, has no candidates.
        on_demand_too: Whether on-demand twins of spot offers are added, as a fallback.
        regions: Regions that can be launched in; empty: all.
    """
    if plan.offer.engine == LOCAL or plan.offer.mig_profile:
        return ()
    fitting = [offer for offer in _fitting(plan) if not regions or offer.region in regions]
    twins = _twins(plan, fitting) if on_demand_too else []
    everything = _everything(plan)
    usual = _list_prices(everything).get(_hardware(plan.offer))
    sensible = [offer for offer in (*fitting, *twins) if offer is plan.offer or _is_sensible(offer, usual)]
    return _candidates(sensible, everything=everything)


def type_candidates(
    offers: Iterable[Offer], *, instance_type: str, region: str, on_demand_too: bool = True, spot_too: bool = True
) -> tuple[LaunchCandidate, ...]:
    """A type by name: spot, the cheapest zone first, then on demand."""
    listed = [o for o in offers if (o.instance_type, o.region) == (instance_type, region) and not o.mig_profile]
    spot = [offer for offer in listed if offer.purchase is PurchaseOption.SPOT]
    steady = [offer for offer in listed if offer.purchase in _STEADY]
    chosen = [*sorted(spot, key=_price), *sorted(steady, key=_price)]
    wanted = [o for o in chosen if (spot_too if o.purchase is PurchaseOption.SPOT else on_demand_too)]
    return _candidates(wanted, everything=listed)


def _fitting(plan: Plan) -> Iterator[Offer]:
    yield plan.offer
    for ranked in (*plan.alternatives, *plan.front):
        if (
            ranked.rejected is None
            and ranked.offer.engine == plan.offer.engine
            and not ranked.offer.mig_profile
            and (ranked.layout, ranked.instances) == (plan.layout, plan.instances)
        ):
            yield ranked.offer


def _twins(plan: Plan, fitting: Iterable[Offer]) -> list[Offer]:
    """On-demand offers of the same hardware at the same place, whatever spoke against them for the whole run."""
    wanted = dict.fromkeys(_hardware(offer) for offer in fitting if offer.purchase is PurchaseOption.SPOT)
    known = [offer for offer in _everything(plan) if offer.purchase in _STEADY and _hardware(offer) in wanted]
    order = {hardware: rank for rank, hardware in enumerate(wanted)}
    return sorted(known, key=lambda offer: order[_hardware(offer)])


def _is_sensible(offer: Offer, usual: str | None) -> bool:
    """Whether it costs about what the chosen hardware costs on demand, as far as both are known."""
    if usual is None or offer.price is None:
        return True
    at_most = _SPOT_AT_MOST if offer.purchase is PurchaseOption.SPOT else _STEADY_AT_MOST
    return Decimal(offer.price.usd_per_h) <= at_most * Decimal(usual)


def _everything(plan: Plan) -> list[Offer]:
    return [plan.offer, *(ranked.offer for ranked in (*plan.alternatives, *plan.front))]


def _hardware(offer: Offer) -> tuple[str, str, str, str | None]:
    return offer.engine, offer.instance_type, offer.region, offer.mig_profile


def _candidates(offers: Iterable[Offer], *, everything: Iterable[Offer]) -> tuple[LaunchCandidate, ...]:
    listed = _list_prices(everything)
    found: dict[_Place, LaunchCandidate] = {}
    for offer in offers:
        place = (offer.instance_type, offer.purchase, offer.region, offer.zone)
        found.setdefault(place, _candidate(offer, listed.get(_hardware(offer))))
    spot = [candidate for candidate in found.values() if candidate.purchase == PurchaseOption.SPOT.value]
    steady = [candidate for candidate in found.values() if candidate.purchase != PurchaseOption.SPOT.value]
    kept = {id(candidate) for candidate in (*spot[:_MOST], *steady[:_MOST_STEADY])}
    return tuple(candidate for candidate in found.values() if id(candidate) in kept)


def _list_prices(offers: Iterable[Offer]) -> dict[tuple[str, str, str, str | None], str]:
    """On-demand price of each kind of hardware at each place."""
    return {
        _hardware(offer): offer.price.usd_per_h
        for offer in offers
        if offer.purchase is PurchaseOption.ON_DEMAND and offer.price is not None
    }


def _candidate(offer: Offer, list_usd_per_h: str | None) -> LaunchCandidate:
    price, grid = offer.price, load_intensities().get(offer.region)
    known = {} if price is None else {"as_of": price.as_of, "source": price.source, "method": price.method}
    return LaunchCandidate(
        instance_type=offer.instance_type,
        purchase=offer.purchase.value,
        region=offer.region,
        zone=offer.zone,
        usd_per_h=None if price is None else price.usd_per_h,
        list_usd_per_h=list_usd_per_h,
        price={f"price_{name}": value for name, value in known.items()},
        idle_w=offer.idle_w,
        peak_w=offer.peak_w,
        gco2e_per_kwh=None if grid is None else grid.gco2e_per_kwh,
        vcpus=offer.vcpus,
        accelerators=offer.accelerators,
    )


def _price(offer: Offer) -> float:
    return float("inf") if offer.price is None else float(offer.price.usd_per_h)
