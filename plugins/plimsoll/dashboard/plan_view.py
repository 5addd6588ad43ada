"""The plan of a run as the dashboard shows it: the whole front, the best alternatives, reasons of the rejected."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

_SHOWN_ALTERNATIVES = 15
_SHOWN_REASONS = 15


def plan_view(document: Any) -> dict[str, Any] | None:
    """What a person wants to see of ``plan.json``; None where there is none or it cannot be read."""
    from include.core.contracts.plan import Plan
    from include.core.json_codec import from_json
    from include.sizing.plan_text import as_ranked, layout_text, named, reasons
    from include.sizing.remarks import saving_of

    try:
        plan = from_json(Plan, document)
    except (ValidationError, TypeError):
        # A damaged document is shown as absent; the task that wrote it says what is wrong.
        return None
    good = [item for item in plan.alternatives if item.rejected is None]
    rejected = [item for item in plan.alternatives if item.rejected is not None]
    saving = saving_of(plan)
    chosen = as_ranked(plan)

    def point(item: Any) -> dict[str, Any]:
        found, price = item.prediction, item.offer.price
        return {
            "name": named(item),
            "layout": "" if item.layout is None else layout_text(item.layout),
            "price": None if price is None else f"{price.usd_per_h} ({price.as_of})",
            "time_s": found and found.time_s,
            "usd": found and found.usd,
            "gco2e": found and found.gco2e,
            "remark": item.rejected or "",
            "chosen": (item.offer, item.instances, item.layout) == (plan.offer, plan.instances, plan.layout),
        }

    return {
        **{key: value for key, value in document.items() if key not in ("alternatives", "front", "naive", "anywhere")},
        "chosen": point(chosen),
        "front": [point(item) for item in plan.front],
        "alternatives": [point(item) for item in (*good, *rejected)[:_SHOWN_ALTERNATIVES]],
        "accepted": len(good),
        "rejected": len(rejected),
        "reasons": reasons(rejected)[:_SHOWN_REASONS],
        "naive": None if plan.naive is None else point(plan.naive),
        "anywhere": None if plan.anywhere is None else point(plan.anywhere),
        "saving": None if saving is None else saving.text,
    }
