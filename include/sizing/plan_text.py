"""A plan as lines of text that a person reads: in the terminal and in the log of the task. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from include.core.contracts.offer import Offer
from include.core.contracts.plan import Layout, Plan, Prediction, RankedOffer
from include.sizing.assumptions import HOUR_S
from include.sizing.remarks import saving_of

_UNKNOWN = "unknown"
_NUMBER = re.compile(r"\d[\d.e+-]*")
_HEAD = ("plan", "layout", "time", "USD", "gCO2e", "USD/h (as of)", "remark")
_SHOWN_FRONT = 12
_SHOWN_NEXT = 5
_SHOWN_REASONS = 12
_MINUTE_S = 60.0
# Parts of the time below this are not worth a word.
_SHOWN_PART_S = 0.001


def describe(plan: Plan) -> list[str]:
    """The whole plan: choice, front, next best, choice without sizing, reasons of the rejected."""
    chosen = as_ranked(plan)
    lines = [
        f"Plan by {plan.objective.value}: {named(chosen)}: {layout_text(plan.layout)}",
        f"  {figures_text(plan.prediction, plan.offer)}; checkpoint every {plan.checkpoint_every_steps} steps",
        f"  {plan.rule}",
    ]
    if plan.fallback_offer:
        lines.append(f"  when no spot capacity comes back: {plan.fallback_offer}")
    if plan.fallback_layouts:
        lines.append(f"  when memory runs out: {'; then '.join(layout_text(found) for found in plan.fallback_layouts)}")
    lines.append(f"  {plan.prediction.method}")
    if plan.prediction.grid is not None:
        lines.append(f"  carbon: grid of {plan.prediction.grid}")
    lines += [f"  note: {flag}" for flag in plan.offer.flags]
    lines += [f"  note: {remark}" for remark in plan.remarks]
    lines += _beside(plan)
    lines += ["", f"Front by time, cost and carbon, {len(plan.front)} plans:", *_rows(plan.front, _SHOWN_FRONT, plan)]
    others = [item for item in plan.alternatives if item.rejected is None]
    if others:
        lines += ["", f"Next best of {len(others)} that could be taken:", *_rows(others, _SHOWN_NEXT, plan)]
    return [*lines, *_rejected(plan.alternatives)]


def as_ranked(plan: Plan) -> RankedOffer:
    """The choice in the form of its alternatives."""
    return RankedOffer(
        offer=plan.offer, prediction=plan.prediction, rejected=None, layout=plan.layout, instances=plan.instances
    )


def named(item: RankedOffer) -> str:
    """Count and name of what is rented."""
    return f"{item.instances} x {item.offer.name}" if item.instances > 1 else item.offer.name


def layout_text(layout: Layout) -> str:
    """A layout in few words, for example ``4 workers (shard 4), 8 x 2 samples, bf16, recompute block``."""
    mesh = [f"{name} {n}" for name in ("replicate", "shard", "tensor") if (n := getattr(layout, name)) > 1]
    parts = [
        f"{layout.workers} workers ({' x '.join(mesh)})" if mesh else "1 worker",
        f"{layout.micro_batch} x {layout.accumulation} samples",
        layout.precision,
    ]
    if layout.activation_checkpointing != "off":
        parts.append(f"recompute {layout.activation_checkpointing}")
    return ", ".join([*parts, *(["offload"] if layout.offload else [])])


def figures_text(prediction: Prediction, offer: Offer) -> str:
    """Time, cost, energy, carbon and memory of a training on an offer in one line."""
    parts = [
        time_text(prediction.time_s),
        _figure(prediction.usd, "USD"),
        _figure(prediction.kwh, "kWh"),
        _figure(prediction.gco2e, "gCO2e"),
        *_memory(prediction, offer),
    ]
    if prediction.time_parts:
        spent = ((name, seconds) for name, seconds in prediction.time_parts.items() if seconds >= _SHOWN_PART_S)
        parts[0] += f" (of which {', '.join(f'{name} {time_text(seconds)}' for name, seconds in spent)})"
    if prediction.step_parts and prediction.step_s is not None:
        split = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in prediction.step_parts.items())
        parts.append(f"step {prediction.step_s:.3g} s ({split})")
    return ", ".join(parts)


def _memory(prediction: Prediction, offer: Offer) -> list[str]:
    tensors = f"{prediction.peak_device_bytes / 1e9:.3g} GB"
    if offer.accelerators:
        parts = [f"{tensors} per device with margin"]
        if prediction.host_bytes is not None:
            parts.append(f"{prediction.host_bytes / 1e9:.3g} GB of host memory per instance")
        return parts
    if prediction.host_bytes is None:
        return [f"tensors {tensors} with margin"]
    return [f"{prediction.host_bytes / 1e9:.3g} GB of host memory, tensors alone {tensors} with margin"]


def time_text(seconds: float | None) -> str:
    """Seconds, minutes or hours."""
    if seconds is None:
        return _UNKNOWN
    if seconds < 2 * _MINUTE_S:
        return f"{seconds:.3g} s"
    return f"{seconds / _MINUTE_S:.3g} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.4g} h"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Aligned columns."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[i]) for row in lines) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]


def reasons(alternatives: Iterable[RankedOffer]) -> list[tuple[int, str]]:
    """How many offers were rejected for which kind of reason, with one of them as an example; most frequent first."""
    count: Counter[str] = Counter()
    example: dict[str, str] = {}
    for item in alternatives:
        for clause in (item.rejected or "").split("; "):
            if clause:
                kind = _NUMBER.sub("..", clause)
                count[kind] += 1
                example.setdefault(kind, f"{clause} ({named(item)})" if kind != clause else clause)
    return [(number, example[kind]) for kind, number in count.most_common()]


def _beside(plan: Plan) -> list[str]:
    lines = []
    if plan.anywhere is not None and plan.anywhere.prediction is not None:
        best = plan.anywhere
        assert best.prediction is not None
        layout = "" if best.layout is None else f", {layout_text(best.layout)}"
        lines.append(
            f"Best anywhere: {named(best)}: {figures_text(best.prediction, best.offer)}{layout}; {best.rejected}"
        )
    saving = saving_of(plan)
    if plan.naive is not None and plan.naive.prediction is not None:
        against = f"; against it: {plan.naive.rejected}" if plan.naive.rejected else ""
        figures = figures_text(plan.naive.prediction, plan.naive.offer)
        lines.append(f"Without sizing: {named(plan.naive)}: {figures}{against}")
    if saving is not None:
        lines.append(f"Saving: {saving.text}")
    return lines


def _rows(items: Sequence[RankedOffer], shown: int, plan: Plan) -> list[str]:
    rows = [_row(item, plan) for item in items[:shown]]
    more = [f"  ... and {len(items) - shown} more, in the plan's JSON"] if len(items) > shown else []
    return [*(f"  {line}" for line in table(_HEAD, rows)), *more]


def _row(item: RankedOffer, plan: Plan) -> tuple[str, ...]:
    predicted, price = item.prediction, item.offer.price
    mine = (item.offer, item.instances, item.layout) == (plan.offer, plan.instances, plan.layout)
    return (
        named(item),
        "" if item.layout is None else layout_text(item.layout),
        time_text(None if predicted is None else predicted.time_s),
        _figure(None if predicted is None else predicted.usd),
        _figure(None if predicted is None else predicted.gco2e),
        "no price" if price is None else f"{price.usd_per_h} ({price.as_of})",
        "chosen" if mine else (item.rejected or ""),
    )


def _rejected(alternatives: Sequence[RankedOffer]) -> list[str]:
    rejected = [item for item in alternatives if item.rejected is not None]
    if not rejected:
        return []
    found = reasons(rejected)
    lines = [f"  {number:5} x {text}" for number, text in found[:_SHOWN_REASONS]]
    more = [f"  ... and {len(found) - _SHOWN_REASONS} other reasons"] if len(found) > _SHOWN_REASONS else []
    return ["", f"Rejected: {len(rejected)} offers (an offer may have several reasons):", *lines, *more]


def _figure(value: float | None, unit: str = "") -> str:
    text = _UNKNOWN if value is None else f"{value:.4g}"
    return f"{text} {unit}".strip()
