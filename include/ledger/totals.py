"""Sums over the charges of a run. Pure. A sum with an unknown part is unknown; its known part stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from include.ledger.charges import Charge

_S_PER_H = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPart:
    """Sums over the charges that know the figure; 0 where none does."""

    usd: Decimal
    list_usd: Decimal
    kwh: float
    gco2e: float
    useful_s: float
    lost_s: float
    idle_s: float
    paid_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """What a run cost and was good for. A figure is None where one charge does not know it, or there is no charge.

    Attributes:
        charges: Number of charges summed.
        usd: Effective cost in US dollars.
        list_usd: Cost at list prices in US dollars.
        kwh: Energy in kilowatt-hours.
        gco2e: Grams of CO2 equivalent.
        useful_s: Useful seconds.
        lost_s: Seconds lost to interruptions and failures.
        idle_s: Paid seconds in which no attempt ran.
        paid_s: Paid seconds.
        utilisation: Useful / paid seconds, 0..1.
        usd_per_useful_h: Effective cost per useful hour.
        gpu_utilisation: Mean over GPU charges, weighted by paid seconds; None without a GPU.
        tensor_activity: Same for the tensor pipes.
        gpu_peak_memory_share: Highest peak share of device memory; None without a GPU.
        cost_methods: How the costs came about, each once.
        energy_methods: How the energy came about, each once.
        unknown: Figure -> number of charges that do not know it; figures all charges know are left out.
        known_part: Sums over the charges that know the figure.
    """

    charges: int
    usd: Decimal | None
    list_usd: Decimal | None
    kwh: float | None
    gco2e: float | None
    useful_s: float | None
    lost_s: float | None
    idle_s: float | None
    paid_s: float | None
    utilisation: float | None
    usd_per_useful_h: Decimal | None
    gpu_utilisation: float | None
    tensor_activity: float | None
    gpu_peak_memory_share: float | None
    cost_methods: tuple[str, ...]
    energy_methods: tuple[str, ...]
    unknown: dict[str, int]
    known_part: KnownPart


def run_totals(charges: Iterable[Charge]) -> RunTotals:
    """Sum the current charges of one run."""
    found = tuple(charges)
    usd, known_usd = _money([c.effective_cost_usd for c in found])
    list_usd, known_list_usd = _money([c.list_cost_usd for c in found])
    columns = {
        name: [getattr(c, name) for c in found] for name in ("kwh", "gco2e", "useful_s", "lost_s", "idle_s", "paid_s")
    }
    sums = {name: _total(values) for name, values in columns.items()}
    missing = {"usd": [c.effective_cost_usd for c in found], "list_usd": [c.list_cost_usd for c in found], **columns}
    useful_s, paid_s = sums["useful_s"][0], sums["paid_s"][0]
    return RunTotals(
        charges=len(found),
        usd=usd,
        list_usd=list_usd,
        **{name: total for name, (total, _) in sums.items()},
        utilisation=useful_s / paid_s if useful_s is not None and paid_s else None,
        usd_per_useful_h=_per_hour(usd, useful_s),
        gpu_utilisation=_weighted_mean([(c.gpu_utilisation, c.paid_s) for c in found]),
        tensor_activity=_weighted_mean([(c.tensor_activity, c.paid_s) for c in found]),
        gpu_peak_memory_share=max((c.gpu_peak_memory_share for c in found if c.gpu_peak_memory_share), default=None),
        cost_methods=tuple(dict.fromkeys(c.cost_method for c in found)),
        energy_methods=tuple(dict.fromkeys(c.energy_method for c in found)),
        unknown={name: values.count(None) for name, values in missing.items() if None in values},
        known_part=KnownPart(
            usd=known_usd, list_usd=known_list_usd, **{name: known for name, (_, known) in sums.items()}
        ),
    )


def _money(values: Sequence[Decimal | None]) -> tuple[Decimal | None, Decimal]:
    known = sum((value for value in values if value is not None), Decimal(0))
    return (known if values and None not in values else None), known


def _total(values: Sequence[float | None]) -> tuple[float | None, float]:
    known = sum(value for value in values if value is not None)
    return (known if values and None not in values else None), known


def _per_hour(usd: Decimal | None, useful_s: float | None) -> Decimal | None:
    if usd is None or not useful_s:
        return None
    return (usd * _S_PER_H / Decimal(str(useful_s))).quantize(Decimal("1e-6"))


def _weighted_mean(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None and weight]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
