"""Everything that can be had: the bundled list, what the last refresh found, and the user's own machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date

from include.catalog.catalog_file import Chip, InstanceType, Sourced
from include.catalog.freshness import Staleness, with_price_checked
from include.catalog.interruptions import InterruptionRate, learned_rate
from include.catalog.loader import instance_offer, load_catalog, load_chips
from include.catalog.own_file import read_own_catalog
from include.catalog.own_offers import OwnFile, committed_offers, machine_offers
from include.catalog.refreshed_file import Quote, Refreshed, read_refreshed
from include.config.settings import REPO, Settings
from include.core.contracts.experience import Experience
from include.core.contracts.offer import Offer, Price, PurchaseOption
from include.core.nvml import nvml_devices
from include.core.store import ObjectStore

# How a flag of a refused price begins, and how many of them a note names.
_REFUSED = "price refused"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferList:
    """Offers, and what a reader has to know about where they come from.

    Attributes:
        offers: Every type x region or zone x purchase option, with or without a price.
        notes: One sentence per thing that is missing or old.
    """

    offers: tuple[Offer, ...]
    notes: tuple[str, ...]


def load_offers(settings: Settings, *, today: date, experience: Iterable[Experience] = ()) -> OfferList:
    """All offers but this machine's, which its engine makes.

    Args:
        settings: Where the refreshed file and the user's file are, and from which age a price is old.
        today: Date against which prices are old and commitments over.
        experience: How often rented capacity of this installation was taken away; corrects the stated rates.

    Raises:
        UserError: The user's file cannot be read or has mistakes; one line for each of them.
    """
    refreshed, damaged = read_refreshed(ObjectStore(settings.store))
    rented = load_catalog() if refreshed is None else merge_refreshed(load_catalog(), refreshed)
    own, over = _own(settings, rented, today=today)
    staleness = Staleness.of(settings)
    seen = {(entry.instance_type, entry.purchase): entry for entry in experience}
    offers = tuple(
        with_price_checked(_with_experience(offer, seen), today=today, staleness=staleness) for offer in (*own, *rented)
    )
    return OfferList(offers=offers, notes=(*((damaged,) if damaged else ()), *over, *_notes(offers)))


def _with_experience(offer: Offer, seen: Mapping[tuple[str, str], Experience]) -> Offer:
    own = seen.get((offer.instance_type, offer.purchase.value))
    if own is None or offer.interruptions_per_h is None or offer.interruptions_source is None:
        return offer
    stated = InterruptionRate(per_h=offer.interruptions_per_h, source=offer.interruptions_source)
    rate = learned_rate(stated, interruptions=own.interruptions, hours=own.hours)
    return replace(offer, interruptions_per_h=rate.per_h, interruptions_source=rate.source)


def _own(settings: Settings, rented: tuple[Offer, ...], *, today: date) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    if not settings.catalog_file:
        return (), ()
    path = REPO / settings.catalog_file
    own = OwnFile(path=path.name, catalog=read_own_catalog(path))
    committed, over = committed_offers(own, rented=rented, today=today)
    machines, absent = _launchable(machine_offers(own, chips=load_chips()))
    return (*machines, *committed), (*absent, *over)


def _launchable(machines: Iterable[Offer]) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Machines without those of engine ``local``, which launches on this one, that have more GPUs than this one."""
    kept, notes = [], []
    for machine in machines:
        if machine.engine == "local" and machine.accelerators > (here := nvml_devices()):
            notes.append(
                f"{machine.instance_type} is left out: engine local launches on this machine, which has {here} NVIDIA "
                f"GPUs and not {machine.accelerators}; another engine is one of your own, such as slurm"
            )
        else:
            kept.append(machine)
    return tuple(kept), tuple(notes)


def merge_refreshed(bundled: tuple[Offer, ...], refreshed: Refreshed) -> tuple[Offer, ...]:
    """Offers of the bundled list, with those of the regions that were asked replaced.

    An on-demand price that the refresh did not find is the bundled one, with its older day. A spot offer is of a zone
    where a spot price is known, else of the region and without a price.
    """
    asked = set(refreshed.regions)
    chips = {**refreshed.chips, **load_chips()}
    listed = {
        (offer.instance_type, offer.region): offer.price
        for offer in bundled
        if offer.purchase is PurchaseOption.ON_DEMAND
    }
    quotes: dict[tuple[str, str, str], list[Quote]] = {}
    for quote in refreshed.quotes:
        quotes.setdefault((quote.type, quote.region, quote.purchase), []).append(quote)
    found = (
        offer
        for entry in refreshed.types
        for region in entry.regions
        for purchase in entry.purchase
        for offer in _refreshed_offers(
            entry,
            chips=chips,
            facts=refreshed.facts,
            region=region,
            purchase=PurchaseOption(purchase),
            quotes=quotes.get((entry.type, region, purchase), []),
            listed=listed.get((entry.type, region)),
        )
    )
    return (*(offer for offer in bundled if offer.region not in asked), *found)


def _refreshed_offers(
    entry: InstanceType,
    *,
    chips: Mapping[str, Chip],
    facts: Sourced,
    region: str,
    purchase: PurchaseOption,
    quotes: list[Quote],
    listed: Price | None,
) -> Iterator[Offer]:
    chip = chips[entry.chip] if entry.chip else None
    fallback = listed if purchase is PurchaseOption.ON_DEMAND else None
    prices: list[tuple[str | None, Price | None]] = [(quote.zone, _price(quote)) for quote in quotes]
    for zone, price in prices or [(None, fallback)]:
        yield instance_offer(entry, chip=chip, facts=facts, region=region, purchase=purchase, price=price, zone=zone)


def _price(quote: Quote) -> Price:
    return Price(usd_per_h=quote.usd_per_h, as_of=quote.as_of.isoformat(), source=quote.source, method="quoted")


def _notes(offers: tuple[Offer, ...]) -> tuple[str, ...]:
    priced = Counter(offer.purchase for offer in offers if offer.price is not None)
    stale = sum(any(flag.startswith("stale") for flag in offer.flags) for offer in offers)
    refused = [f"{offer.name}: {flag}" for offer in offers for flag in offer.flags if flag.startswith(_REFUSED)]
    notes = []
    if stale:
        notes.append(f"{stale} of {priced.total()} prices are stale")
    if refused:
        more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        notes.append(f"{'; '.join(refused[:_SHOWN])}{more}")
    if not priced[PurchaseOption.SPOT]:
        notes.append("no spot price is known: refresh the catalog to plan with spot")
    return tuple(notes)
