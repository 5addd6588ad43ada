"""Plans for tests of what comes after a run: one chosen offer and alternatives with predictions."""

from __future__ import annotations

from typing import Any

from include.core.contracts.offer import Offer
from include.core.contracts.plan import Layout, Objective, Plan, Prediction, RankedOffer
from tests.support.offers import offer


def prediction(*, usd: float | None = 10.0, **fields: Any) -> Prediction:
    values: dict[str, Any] = {
        "time_s": 3600.0,
        "usd": usd,
        "kwh": None,
        "gco2e": None,
        "peak_device_bytes": 10**9,
        "method": "test",
        "step_s": 0.1,
        "traced_peak_bytes": 8 * 10**8,
    }
    return Prediction(**{**values, **fields})


def ranked(usd: float | None = 5.0, *, rejected: str | None = None, **fields: Any) -> RankedOffer:
    return RankedOffer(offer=offer(**fields), prediction=prediction(usd=usd), rejected=rejected)


def plan(*alternatives: RankedOffer, chosen: Offer | None = None, **fields: Any) -> Plan:
    values: dict[str, Any] = {
        "offer": chosen or offer(),
        "layout": Layout(precision="bf16", micro_batch=32),
        "prediction": prediction(),
        "checkpoint_every_steps": 10,
        "objective": Objective.COST,
        "rule": "test",
        "alternatives": alternatives,
        "naive": None,
    }
    return Plan(**{**values, **fields})
