"""The planner over the catalog x layouts x purchase options x zones, for five trainings, and an exhaustive search.

The bundled catalog knows no spot prices and no zones, so the bench puts each spot offer into three zones at 40, 45 and
50 % of the on-demand price: made up, for the size of the search alone. Savings are taken over offers without these.
Demands are arithmetic: tests/support/textbook_demands.py. Ends with one JSON line. Figures: ``max_plan_ms`` (wall time,
the slowest demand's best of the repeats), ``equals_exhaustive``, ``offers``, ``saving_vs_naive`` per demand.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from include.catalog.local import local_offer
from include.catalog.offers import load_offers
from include.config.settings import Settings
from include.core.clock import SystemClock
from include.core.contracts.offer import Offer, Price, PurchaseOption
from include.sizing.planner import make_plan
from include.sizing.remarks import saving_of
from tests.support.exhaustive_plan import Search, same
from tests.support.textbook_demands import METHOD, five

REPEATS = 5
ZONES = {"a": Decimal("0.40"), "b": Decimal("0.45"), "c": Decimal("0.50")}
MADE_UP = "made up for this bench"


def zoned(offers: tuple[Offer, ...]) -> Iterator[Offer]:
    """The offers, each spot offer in three zones with a price where its on-demand twin has one."""
    listed = {
        (offer.instance_type, offer.region): offer.price
        for offer in offers
        if offer.purchase is PurchaseOption.ON_DEMAND and offer.price is not None
    }
    for offer in offers:
        if offer.purchase is not PurchaseOption.SPOT:
            yield offer
            continue
        price = listed.get((offer.instance_type, offer.region))
        for zone, share in ZONES.items():
            spot = price and Price(
                usd_per_h=str(Decimal(price.usd_per_h) * share), as_of=price.as_of, source=MADE_UP, method="estimated"
            )
            yield replace(offer, zone=f"{offer.region}{zone}", price=spot or None)


def main() -> None:
    settings, today = Settings(), SystemClock().now().date()
    real = (local_offer(settings, today=today), *load_offers(settings, today=today).offers)
    offers = tuple(zoned(real))
    milliseconds, cpu_ms, equal, saving, plans, looked_at = {}, {}, {}, {}, {}, {}
    trainings, found = five(), {}
    for name, (demand, workload) in trainings.items():
        asked = {"demand": demand, "workload": workload, "settings": settings, "today": today}
        took, used = [], []
        for _ in range(REPEATS):
            began, cpu = time.perf_counter(), time.process_time()
            plan = make_plan(offers=offers, **asked)
            took.append(1000 * (time.perf_counter() - began))
            used.append(1000 * (time.process_time() - cpu))
        milliseconds[name] = [round(value, 1) for value in sorted(took)]
        cpu_ms[name] = round(min(used), 1)
        found[name] = plan
    # Searches last: what they remember would slow the collector down while a plan is timed.
    for name, (demand, workload) in trainings.items():
        plan = found[name]
        search = Search(demand, workload, offers, settings)
        best = search.best()
        equal[name], looked_at[name] = best is not None and same(plan, best), search.looked_at
        priced = make_plan(offers=real, demand=demand, workload=workload, settings=settings, today=today)
        saved = saving_of(priced)
        saving[name] = None if saved is None else round(saved.share, 4)
        plans[name] = {
            "bench": f"{plan.instances} x {plan.offer.name}",
            "listed_prices": f"{priced.instances} x {priced.offer.name}",
            "usd": priced.prediction.usd,
            "naive": priced.naive and f"{priced.naive.offer.name}: {priced.naive.prediction.usd:.4g} USD",
            "front": len(plan.front),
        }
    figures = {
        "max_plan_ms": max(took[0] for took in milliseconds.values()),
        "equals_exhaustive": all(equal.values()),
        "offers": len(offers),
        "saving_vs_naive": saving,
    }
    context = {
        "repeats": REPEATS,
        "plan_ms": milliseconds,
        "cpu_ms": cpu_ms,
        "equal": equal,
        "options_looked_at": looked_at,
        "plans": plans,
        "demands": " ".join(METHOD.split()),
    }
    print(json.dumps({"bench": "planner", "figures": figures, "context": context}))


if __name__ == "__main__":
    main()
